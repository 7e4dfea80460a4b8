package kubernetes

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"
)

// staticPods runs the programs of static pods' manifests, as a kubelet does with their containers.
type staticPods struct {
	t       *testing.T
	running map[string]*program
}

// program is one that runs.
type program struct {
	command *exec.Cmd
	log     bytes.Buffer
	ended   chan error
}

func newStaticPods(t *testing.T) *staticPods {
	s := &staticPods{t: t, running: make(map[string]*program)}
	t.Cleanup(func() {
		for pod, p := range s.running {
			p.stop()
			if t.Failed() {
				text := p.log.String()
				t.Logf("the end of the log of %s:\n%s", pod, text[max(0, len(text)-6000):])
			}
		}
	})
	return s
}

// startProgram starts a program that the test ends.
func startProgram(t *testing.T, argv ...string) *program {
	t.Helper()
	p := &program{command: exec.Command(argv[0], argv[1:]...), ended: make(chan error, 1)}
	p.command.Stdout, p.command.Stderr = &p.log, &p.log
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		err := p.command.Wait()
		p.ended <- err
		close(p.ended)
	}()
	return p
}

// stop ends the program as a kubelet does after the grace period.
func (p *program) stop() {
	_ = p.command.Process.Signal(unix.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second): // an API server waits for its clients
		_ = p.command.Process.Kill()
		<-p.ended
	}
}

func (s *staticPods) text(pod string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(staticPodDir, pod+".yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// command is that of a pod's only container, with programs of this machine.
func (s *staticPods) command(pod string) []string {
	s.t.Helper()
	var manifest struct {
		Spec struct {
			Containers []struct{ Command, Args []string }
		}
	}
	if err := yaml.Unmarshal([]byte(s.text(pod)), &manifest); err != nil || len(manifest.Spec.Containers) != 1 {
		s.t.Fatalf("%s: %v, %+v", pod, err, manifest)
	}
	c := manifest.Spec.Containers[0]
	argv := append(slices.Clone(c.Command), c.Args...)
	known := map[string]string{"etcd": etcdProgram, "kube-apiserver": programs + "/kube-apiserver", "/netcraq": netcraq}
	if known[argv[0]] == "" {
		s.t.Fatalf("%s runs %s", pod, argv[0])
	}
	argv[0] = known[argv[0]]
	return argv
}

// sync runs pods by their manifests of now.
func (s *staticPods) sync(pods ...string) {
	s.t.Helper()
	for _, pod := range pods {
		if p := s.running[pod]; p != nil {
			p.stop()
			delete(s.running, pod)
		}
		if _, err := os.Stat(filepath.Join(staticPodDir, pod+".yaml")); err != nil {
			continue
		}
		s.running[pod] = startProgram(s.t, s.command(pod)...)
	}
}

// check starts programs again that have ended.
func (s *staticPods) check() {
	s.t.Helper()
	for pod, p := range s.running {
		select {
		case err := <-p.ended:
			s.t.Logf("%s has ended: %v\n%s", pod, err, p.log.String())
			delete(s.running, pod)
			s.sync(pod)
		default:
		}
	}
}

// ownFiles gives the process a /run in memory, and an /etc whose changes are there.
func ownFiles(t *testing.T) {
	t.Helper()
	const upper, work = "/run/etc/upper", "/run/etc/work"
	for _, step := range []func() error{
		func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return unix.Mount("proc", "/proc", "proc", 0, "") },
		func() error { return unix.Mount("tmpfs", "/run", "tmpfs", 0, "") },
		func() error { return os.MkdirAll(upper, 0o755) },
		func() error { return os.MkdirAll(work, 0o755) },
		func() error {
			return unix.Mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+upper+",workdir="+work)
		},
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

// ownNetwork brings the loopback device up, with the address of the machine.
func ownNetwork(t *testing.T) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	for _, device := range []string{"lo", "lo:1"} {
		request, err := unix.NewIfreq(device)
		if err != nil {
			t.Fatal(err)
		}
		if device != "lo" {
			if err := request.SetInet4Addr([]byte{192, 0, 2, 50}); err != nil {
				t.Fatal(err)
			}
			if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, request); err != nil {
				t.Fatal(err)
			}
			return
		}
		request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
			t.Fatal(err)
		}
	}
}

// startChain starts a controller and three nodes, and returns the controller's address.
func startChain(t *testing.T) string {
	t.Helper()
	const controller = "127.88.0.1"
	started := []*program{startProgram(t, netcraq, "controller", "--data-dir", t.TempDir(), "--name", "c1",
		"--initial-cluster", "c1="+controller)}
	for n := range 3 {
		name := string(rune('1' + n))
		started = append(started, startProgram(t, netcraq, "node", "--plane", "soft", "--name", "n"+name,
			"--addr", "127.88.1."+name+":4411", "--join", controller))
	}
	t.Cleanup(func() {
		for _, p := range started {
			p.stop()
			if t.Failed() {
				text := p.log.String()
				t.Logf("the end of a log of the chain:\n%s", text[max(0, len(text)-2000):])
			}
		}
	})
	await(t, "the chain", func() error {
		out, err := exec.Command(netcraq, "inspect", "--ready", "--api", "127.88.1.1:4412").CombinedOutput()
		if err != nil {
			return &outputError{err, out}
		}
		return nil
	})
	return controller
}

type outputError struct {
	error
	out []byte
}

func (e *outputError) Error() string { return e.error.Error() + ": " + string(e.out) }

// adminClient is a client of the API server with the administrator's certificate.
func adminClient(t *testing.T) *tls.Config {
	t.Helper()
	text, err := os.ReadFile("/etc/kubernetes/super-admin.conf")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Authority []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			}
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil || len(config.Clusters) != 1 || len(config.Users) != 1 {
		t.Fatalf("the administrator's configuration: %v", err)
	}
	pair, err := tls.X509KeyPair(config.Users[0].User.Certificate, config.Users[0].User.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(config.Clusters[0].Cluster.Authority)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}
