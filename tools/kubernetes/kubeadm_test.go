package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	etcdProgram     = "../../.tools/etcd"
	guide           = "../../docs/kubernetes.md"
	gatewayManifest = "../../deploy/manifests/gateway.yaml"

	staticPodDir = "/etc/kubernetes/manifests"
	gatewayPages = "http://127.0.0.1:23791"
	gatewayURL   = "https://127.0.0.1:23790"
	etcdURL      = "https://127.0.0.1:2379"
	kubeadmAddr  = "192.0.2.50"
	kubeadmAPI   = "https://" + kubeadmAddr + ":6443"
)

const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: %s, bindPort: 6443}
nodeRegistration: {name: machine, criSocket: "unix:///run/containerd/containerd.sock"}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
etcd: {local: {dataDir: /run/etcd}}
networking: {serviceSubnet: 198.51.100.0/24}
`

// TestKubeadm follows the guide for kubeadm's clusters, in and out again: with the certificates and static pods that
// kubeadm makes, the guide's commands, and the gateway's static pod. The programs of static pods run as processes.
func TestKubeadm(t *testing.T) {
	needRoot(t)
	if !inNamespaces(t, unix.CLONE_NEWNET|unix.CLONE_NEWNS|unix.CLONE_NEWPID) {
		return
	}
	k, controllers := startKubeadm(t)
	n := newCounterAt(t, &counter{of: configMaps, server: kubeadmAPI}, adminClient(t))
	n.run(t, "in and out of a kubeadm cluster", func() {
		k.in(controllers)
		k.refusals()
		k.awaitHits()
		k.out()
	})
}

// startKubeadm makes a machine, with an API server and a chain that run. It returns the chain's controllers.
func startKubeadm(t *testing.T) (k *kubeadm, controllers string) {
	t.Helper()
	ownFiles(t)
	ownNetwork(t)
	k = &kubeadm{t: t, pods: newStaticPods(t)}
	k.makeControlPlane()
	k.pods.sync("etcd", "kube-apiserver")
	k.awaitAPI()
	return k, startChain(t)
}

// kubeadm is a machine that kubeadm has set up.
type kubeadm struct {
	t    *testing.T
	pods *staticPods
}

// makeControlPlane has kubeadm make certificates, static pods and the administrator's configuration.
func (k *kubeadm) makeControlPlane() {
	k.t.Helper()
	version := strings.TrimSpace(k.run(programs+"/kubeadm", "version", "--output=short"))
	config := filepath.Join(k.t.TempDir(), "kubeadm.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, kubeadmConfig, kubeadmAddr, version), 0o600); err != nil {
		k.t.Fatal(err)
	}
	for _, phase := range []string{"certs all", "kubeconfig admin", "kubeconfig super-admin", "etcd local",
		"control-plane apiserver"} {
		k.run(programs+"/kubeadm", append(append([]string{"init", "phase"}, strings.Fields(phase)...), "--config", config)...)
	}
}

func (k *kubeadm) run(program string, arguments ...string) string {
	k.t.Helper()
	out, err := exec.Command(program, arguments...).CombinedOutput()
	if err != nil {
		k.t.Fatalf("%s %s: %v\n%s", program, strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// edit replaces text of a static pod's manifest, and restarts its program.
func (k *kubeadm) edit(pod, old, replacement string) {
	k.t.Helper()
	path := filepath.Join(staticPodDir, pod+".yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		k.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		k.t.Fatalf("%s does not have %s:\n%s", path, old, text)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, replacement, 1)), 0o600); err != nil {
		k.t.Fatal(err)
	}
	k.pods.sync(pod)
}

// in follows the guide's steps 2 to 4; the chain of step 1 is there.
func (k *kubeadm) in(controllers string) {
	k.t.Helper()
	k.run("bash", "-euc", commandsOf(k.t, "openssl req"))
	text, err := os.ReadFile(gatewayManifest)
	if err != nil {
		k.t.Fatal(err)
	}
	own := regexp.MustCompile(`--controllers=\S+`).ReplaceAllLiteral(text, []byte("--controllers="+controllers))
	if err := os.WriteFile(filepath.Join(staticPodDir, "netcraq-gateway.yaml"), own, 0o600); err != nil {
		k.t.Fatal(err)
	}
	k.pods.sync("netcraq-gateway")
	k.awaitPage(gatewayPages+"/health", `"true"`)
	k.edit("kube-apiserver", "--etcd-servers="+etcdURL, "--etcd-servers="+gatewayURL)
	k.awaitAPI()
}

// refusals: the gateway serves no client without a certificate of etcd's authority, and does not start with a
// certificate that has a common name.
func (k *kubeadm) refusals() {
	k.t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting(k.t, "/etc/kubernetes/pki/etcd/ca.crt")}}
	defer client.CloseIdleConnections()
	if answer, err := client.Get(gatewayURL + "/health"); err == nil {
		answer.Body.Close()
		k.t.Errorf("a client without a certificate: %s", answer.Status)
	}
	argv := k.pods.command("netcraq-gateway")
	for i, argument := range argv {
		for _, file := range []string{"crt", "key"} {
			argument = strings.Replace(argument, "/etcd/netcraq-gateway."+file, "/apiserver-etcd-client."+file, 1)
		}
		argument = strings.Replace(argument, "23790", "23792", 1)
		argv[i] = strings.Replace(argument, "23791", "23793", 1)
	}
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Common Name") {
		k.t.Errorf("a gateway whose certificate has a common name: %v\n%s", err, out)
	}
}

// awaitHits waits until the chain answers reads of the API server.
func (k *kubeadm) awaitHits() {
	k.t.Helper()
	await(k.t, "reads from the chain", func() error {
		hits := 0
		for line := range strings.Lines(k.page(gatewayPages + "/proxy/metrics")) {
			if n, _ := fmt.Sscanf(line, "netcraq_gateway_hits_total %d", &hits); n == 1 && hits > 0 {
				return nil
			}
		}
		return fmt.Errorf("the chain has answered none")
	})
	text := k.run(netcraq, "top", "--keys", "--gateways", strings.TrimPrefix(gatewayPages, "http://"), "--json")
	if !json.Valid([]byte(text)) {
		k.t.Errorf("netcraq top --keys --json: %s", text)
	}
}

// out follows the guide's way out with a single API server.
func (k *kubeadm) out() {
	k.t.Helper()
	line := regexp.MustCompile(`\n *- --controllers=\S+`).FindString(k.pods.text("netcraq-gateway"))
	k.edit("netcraq-gateway", line, "")
	k.awaitPage(gatewayPages+"/health", `"true"`)
	k.edit("kube-apiserver", "--etcd-servers="+gatewayURL, "--etcd-servers="+etcdURL)
	if err := os.Remove(filepath.Join(staticPodDir, "netcraq-gateway.yaml")); err != nil {
		k.t.Fatal(err)
	}
	k.pods.sync("netcraq-gateway")
	k.awaitAPI()
}

func (k *kubeadm) awaitAPI() {
	k.t.Helper()
	await(k.t, "the API server", func() error {
		k.pods.check()
		out, err := exec.Command(programs+"/kubectl", "--kubeconfig", "/etc/kubernetes/super-admin.conf",
			"--request-timeout=10s", "get", "--raw", "/readyz").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

func (k *kubeadm) page(url string) string {
	answer, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return answer.Status + "\n" + string(text)
}

func (k *kubeadm) awaitPage(url, want string) {
	k.t.Helper()
	await(k.t, url, func() error {
		k.pods.check()
		if text := k.page(url); !strings.Contains(text, want) {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
}

// commandsOf returns the guide's block of commands that has some text.
func commandsOf(t *testing.T, text string) string {
	t.Helper()
	page, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(page), "```") {
		if i%2 == 1 && strings.Contains(block, text) {
			_, commands, _ := strings.Cut(block, "\n")
			return commands
		}
	}
	t.Fatalf("%s has no block with %q", guide, text)
	return ""
}
