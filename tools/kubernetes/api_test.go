package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	netcraq  = "../../bin/netcraq"
	programs = "../../out/kubernetes"
	manifest = "../../deploy/manifests/netcraq.yaml"

	token = "test" // of the only user, on a loopback address

	startLimit = 3 * time.Minute // for a hung program, not a measure of its speed
	retryPause = 200 * time.Millisecond
)

// TestManifestsOnGateway stores the product's manifests in an API server whose only etcd is a gateway, and reads them
// from a second API server.
func TestManifestsOnGateway(t *testing.T) {
	for _, program := range []string{netcraq, programs + "/kube-apiserver", programs + "/kubectl"} {
		if _, err := os.Stat(program); err != nil {
			t.Fatalf("%v: run make test-kubernetes-api, which compiles it", err)
		}
	}
	etcd := startGateway(t)
	dir := t.TempDir()
	writeKeys(t, dir)

	first := startServer(t, dir, etcd)
	first.kubectl(t, "apply", "--validate=strict", "--filename", manifest)
	const kinds = "clusterroles,clusterrolebindings,daemonsets,deployments,namespaces,poddisruptionbudgets,serviceaccounts,services"
	list := []string{"get", kinds, "--namespace=netcraq", "--selector=app.kubernetes.io/name=netcraq",
		"--sort-by=.metadata.uid",
		"--output=custom-columns=KIND:.kind,NAME:.metadata.name,UID:.metadata.uid,REVISION:.metadata.resourceVersion"}
	before := first.kubectl(t, list...)
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	objects := len(regexp.MustCompile(`(?m)^kind: `).FindAll(text, -1))
	if rows := strings.Count(before, "\n") - 1; objects == 0 || rows != objects {
		t.Errorf("the API server has %d of %d objects:\n%s", rows, objects, before)
	}
	first.stop(t)

	second := startServer(t, dir, etcd)
	if after := second.kubectl(t, list...); after != before {
		t.Errorf("after a restart of the API server:\n%s\nbefore:\n%s", after, before)
	}
	second.kubectl(t, "delete", "--wait=false", "--cascade=orphan", "--filename", manifest)
	second.stop(t)
}

// startGateway returns the address of a gateway in front of an etcd. Both end with the test.
func startGateway(t *testing.T) string {
	up := exec.Command(netcraq, "up", "--plane", "soft", "--gateway", "--etcd-listen", "127.0.0.1:0")
	up.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	up.Stderr = os.Stderr
	output, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		up.Process.Signal(syscall.SIGINT)
		if err := up.Wait(); err != nil {
			t.Errorf("netcraq up: %v", err)
		}
	})
	endpoints := regexp.MustCompile(`--endpoints (\S+)`)
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if found := endpoints.FindStringSubmatch(lines.Text()); found != nil {
			return found[1]
		}
	}
	t.Fatal("netcraq up --gateway printed no endpoint")
	return ""
}

// writeKeys writes the token of the test's user, and a key for service accounts.
func writeKeys(t *testing.T, dir string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"accounts.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
		"tokens.csv":   []byte(token + `,admin,1,"system:masters"` + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// server is an API server that runs.
type server struct {
	command *exec.Cmd
	address string // HOST:PORT
	certs   string // directory with apiserver.crt
	log     *bytes.Buffer
	ended   chan error
}

// startServer returns an API server that is ready.
func startServer(t *testing.T, dir, etcd string) *server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	listener.Close()
	s := &server{address: address, certs: filepath.Join(dir, "certs"), log: new(bytes.Buffer), ended: make(chan error, 1)}
	key := filepath.Join(dir, "accounts.key")
	s.command = exec.Command(programs+"/kube-apiserver", "--etcd-servers=http://"+etcd, "--cert-dir="+s.certs,
		"--bind-address=127.0.0.1", "--secure-port="+port, "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none",
		"--authorization-mode=RBAC", "--token-auth-file="+filepath.Join(dir, "tokens.csv"),
		"--service-account-issuer=https://netcraq.test", "--service-account-key-file="+key,
		"--service-account-signing-key-file="+key, "--service-cluster-ip-range=198.51.100.0/24")
	s.command.Stdout, s.command.Stderr = s.log, s.log
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.command.Wait() }()
	t.Cleanup(func() { s.command.Process.Kill() })
	s.awaitReady(t)
	return s
}

func (s *server) awaitReady(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		_, err := s.try(ctx, "get", "--raw", "/readyz")
		if err == nil {
			return
		}
		select {
		case end := <-s.ended:
			t.Fatalf("kube-apiserver ended: %v\n%s", end, s.log)
		case <-ctx.Done():
			t.Fatalf("kube-apiserver is not ready: %v", err)
		case <-time.After(retryPause):
		}
	}
}

// stop ends the server as its manager would.
func (s *server) stop(t *testing.T) {
	s.command.Process.Signal(syscall.SIGTERM)
	if err := <-s.ended; err != nil {
		t.Errorf("kube-apiserver: %v\n%s", err, s.log)
	}
}

// kubectl returns the output of a command that has to succeed.
func (s *server) kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := s.try(context.Background(), arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

func (s *server) try(ctx context.Context, arguments ...string) (string, error) {
	options := []string{"--kubeconfig=/dev/null", "--server=https://" + s.address, "--token=" + token,
		"--certificate-authority=" + filepath.Join(s.certs, "apiserver.crt")}
	command := exec.CommandContext(ctx, programs+"/kubectl", append(options, arguments...)...)
	var said bytes.Buffer
	command.Stderr = &said
	output, err := command.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", arguments[0], err, &said)
	}
	return string(output), err
}
