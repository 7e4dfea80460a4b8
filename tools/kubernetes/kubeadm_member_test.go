package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	memberPages = "http://127.0.0.1:2381"
	// guideControllers are the controllers in the guide's commands.
	guideControllers = "192.0.2.1,192.0.2.2,192.0.2.3"
)

// TestKubeadmMember follows the guide that puts `netcraq etcd` in the place of kubeadm's etcd, in and out again, on its
// data directory, while a client counts.
func TestKubeadmMember(t *testing.T) {
	needRoot(t)
	if !inNamespaces(t, unix.CLONE_NEWNET|unix.CLONE_NEWNS|unix.CLONE_NEWPID) {
		return
	}
	k, controllers := startKubeadm(t)
	before := k.pods.text("etcd")
	n := newCounterAt(t, &counter{of: configMaps, server: kubeadmAPI}, adminClient(t))
	n.run(t, "with a member and without in a kubeadm cluster", func() {
		commands := commandsOf(t, "--chain-controllers=")
		if !strings.Contains(commands, guideControllers) {
			t.Fatalf("the guide does not name %s:\n%s", guideControllers, commands)
		}
		k.run("bash", "-euc", strings.Replace(commands, guideControllers, controllers, 1))
		if argv := k.pods.command("etcd"); argv[0] != netcraq || !slices.Contains(argv, "--chain-controllers="+controllers) {
			t.Fatalf("the manifest runs %q", argv)
		}
		for _, want := range []string{"image: netcraq:latest", "add: [BPF, PERFMON]", "mountPath: /sys/fs/bpf", "path: /sys/fs/bpf"} {
			if text := k.pods.text("etcd"); !strings.Contains(text, want) {
				t.Errorf("the manifest has no %s:\n%s", want, text)
			}
		}
		k.pods.sync("etcd")
		k.awaitPage(memberPages+"/metrics", `netcraq_member_state{state="on"} 1`)
		k.awaitAPI()
		k.awaitFastReads()

		k.run("bash", "-euc", commandsOf(t, "mv /etc/kubernetes/etcd.yaml"))
		if after := k.pods.text("etcd"); after != before {
			t.Errorf("the manifest was\n%s\nand is\n%s", before, after)
		}
		k.pods.sync("etcd")
		k.awaitAPI()
	})
}

// awaitFastReads waits until the member has answered reads of the API server through the chain.
func (k *kubeadm) awaitFastReads() {
	k.t.Helper()
	await(k.t, "fast reads", func() error {
		reads := 0.0
		for line := range strings.Lines(k.page(memberPages + "/metrics")) {
			if n, _ := fmt.Sscanf(line, "netcraq_member_fast_reads_total %g", &reads); n == 1 && reads > 0 {
				return nil
			}
		}
		return fmt.Errorf("the member has answered none")
	})
}
