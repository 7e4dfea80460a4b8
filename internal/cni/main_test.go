package cni

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// The test's program is run again as the plugin, and inside a machine of its own.
const (
	asPlugin = "NETCRAQ_TEST_PLUGIN"
	inside   = "NETCRAQ_TEST_INSIDE"
)

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		skel.PluginMainFuncs(Plugin{Log: os.Stderr}.Funcs(), Versions, "")
		return
	}
	os.Exit(m.Run())
}

// onMachine runs a test in a process with a network and mounts of its own, which end with it: all of its threads, the
// agent's among them, are in one network namespace, as on a machine.
func onMachine(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	roottest.Need(t)
	if os.Getenv(inside) != "" {
		if err := makeMachine(); err != nil {
			t.Fatal(err)
		}
		test(t)
		return
	}
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	c.Env = append(os.Environ(), inside+"=1")
	c.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}

// uplink is the machine's own interface, and nodeAddr its address.
const (
	uplink   = "up0"
	nodeAddr = "10.99.0.1"
)

func makeMachine() error {
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "up1"}
	veth.Name = uplink
	address, err := netlink.ParseAddr(nodeAddr + "/24")
	if err != nil {
		return err
	}
	err = errors.Join(
		unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, ""),
		netlink.LinkAdd(veth))
	if err != nil {
		return fmt.Errorf("making a machine for the test: %w", err)
	}
	for _, name := range []string{"lo", uplink, veth.PeerName} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
	}
	return netlink.AddrAdd(veth, address)
}
