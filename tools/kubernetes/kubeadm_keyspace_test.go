package kubernetes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	keyspaceManifest = "../../deploy/manifests/keyspace.yaml"
	keyspacePages    = "http://127.0.0.1:2381"
	keyspacePod      = "netcraq-keyspace"
)

// guidePaths are directories of the guide's commands, and those of the test in their place.
var guidePaths = map[string]string{"/var/lib/etcd": "/run/etcd", "/var/lib/netcraq": "/run/netcraq-data"}

// TestKubeadmKeyspace follows the guide that puts a keyspace on disks in the place of kubeadm's etcd, with all objects,
// and back, while a client counts. An object that was made on the keyspace is in the etcd behind it.
func TestKubeadmKeyspace(t *testing.T) {
	needRoot(t)
	if !inNamespaces(t, unix.CLONE_NEWNET|unix.CLONE_NEWNS|unix.CLONE_NEWPID) {
		return
	}
	ownPrograms(t)
	k, controllers := startKubeadm(t)
	k.guide("openssl req", nil)
	n := newCounterAt(t, &counter{of: configMaps, server: kubeadmAPI}, adminClient(t))
	n.run(t, "onto a keyspace and back in a kubeadm cluster", func() {
		k.guide("mkdir /etc/kubernetes/stopped", nil)
		k.pods.sync("kube-apiserver", "etcd")
		k.guide("netcraq keyspace import", map[string]string{guideControllers: controllers})
		k.keyspace(controllers)
		k.guide("mv /etc/kubernetes/stopped/kube-apiserver.yaml /etc/kubernetes/manifests", nil)
		k.pods.sync("kube-apiserver")
		k.awaitAPI()
		k.kubectl("create", "configmap", "made-on-keyspace")

		k.guide("stopped   # on each machine", nil)
		k.pods.sync("kube-apiserver")
		k.guide("snapshot save", nil)
		k.pods.sync(keyspacePod)
		k.guide("etcdutl snapshot restore", nil)
		k.pods.sync("etcd", "kube-apiserver")
		k.awaitAPI()
		k.kubectl("get", "configmap", "made-on-keyspace")
	})
}

// ownPrograms puts the programs of the guide's commands before others.
func ownPrograms(t *testing.T) {
	t.Helper()
	path := os.Getenv("PATH")
	for _, dir := range []string{programs, filepath.Dir(netcraq)} {
		dir, err := filepath.Abs(dir)
		if err != nil {
			t.Fatal(err)
		}
		path = dir + ":" + path
	}
	t.Setenv("PATH", path)
}

// guide runs the guide's block of commands that has some text, with values of this machine in the place of the guide's.
func (k *kubeadm) guide(text string, values map[string]string) {
	k.t.Helper()
	commands := commandsOf(k.t, text)
	for guides, own := range values {
		if !strings.Contains(commands, guides) {
			k.t.Fatalf("the guide does not name %s:\n%s", guides, commands)
		}
		commands = strings.ReplaceAll(commands, guides, own)
	}
	for guides, own := range guidePaths {
		commands = strings.ReplaceAll(commands, guides, own)
	}
	k.run("bash", "-euc", commands)
}

// keyspace follows the guide's step 4.
func (k *kubeadm) keyspace(controllers string) {
	k.t.Helper()
	text, err := os.ReadFile(keyspaceManifest)
	if err != nil {
		k.t.Fatal(err)
	}
	own := strings.NewReplacer(guideControllers, controllers, "$(ADDRESS)", kubeadmAddr, "/var/lib/netcraq",
		guidePaths["/var/lib/netcraq"]).Replace(string(text))
	if err := os.WriteFile(filepath.Join(staticPodDir, keyspacePod+".yaml"), []byte(own), 0o600); err != nil {
		k.t.Fatal(err)
	}
	k.pods.sync(keyspacePod)
	k.awaitPage(keyspacePages+"/health", `"true"`)
}

func (k *kubeadm) kubectl(arguments ...string) {
	k.t.Helper()
	k.run(programs+"/kubectl", append([]string{"--kubeconfig", "/etc/kubernetes/super-admin.conf"}, arguments...)...)
}
