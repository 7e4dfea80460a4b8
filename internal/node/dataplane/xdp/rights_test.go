package xdp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/platform/thread"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// leastRights are the capabilities that deploy/chart gives a node for its data plane.
var leastRights = []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_NET_ADMIN}

// withLeastRights marks a process that has no other capabilities.
const withLeastRights = "NETCRAQ_TEST_LEAST_RIGHTS"

// TestLeastRights uses a data plane, with all that an agent does to it, as root without the other capabilities.
func TestLeastRights(t *testing.T) {
	roottest.Need(t)
	if os.Getenv(withLeastRights) != "" {
		useWithLeastRights(t)
		return
	}
	if err := makePinDirectory(testOptions(t).Pin + "-mount"); err != nil { // mounting the file system needs more
		t.Fatal(err)
	}
	if err := os.Remove(testOptions(t).Pin + "-mount"); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestLeastRights$", "-test.v", "-test.count=1")
	c.Env = append(os.Environ(), withLeastRights+"=1")
	c.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	var out []byte
	err := thread.Do(func() (err error) { // the bounding set is the thread's, and that of processes that it starts
		for right := 0; right <= unix.CAP_LAST_CAP; right++ {
			if slices.Contains(leastRights, right) {
				continue
			}
			err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(right), 0, 0, 0)
			if err != nil && !errors.Is(err, unix.EINVAL) { // the kernel does not know it
				return err
			}
		}
		out, err = c.CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func useWithLeastRights(t *testing.T) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have, want [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		t.Fatal(err)
	}
	for _, right := range leastRights {
		want[right/32].Effective |= 1 << (right % 32)
	}
	if have[0].Effective != want[0].Effective || have[1].Effective != want[1].Effective {
		t.Fatalf("the test has the capabilities %x, not %x", have, want)
	}
	me := &Offline{self: conformance.Me, network: conformance.Net}
	if err := makeNear(macOf(me.self.Addr().As4()), me.wire); err != nil {
		t.Fatal(err)
	}
	pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "pod"}
	pair.Name = "vethpod"
	if err := netlink.LinkAdd(pair); err != nil {
		t.Fatal(err)
	}
	o := testOptions(t)
	o.Pods = netip.MustParseAddr("169.254.77.1")
	begin := func(p *Plane) error {
		return errors.Join(configureLone(p), useTables(p), p.SetTags(wire.TagsAccepted))
	}
	for _, step := range []func(*Plane) error{begin, useTables} {
		p, err := Open(o) // the second one takes over
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.AttachPod(pair.Name, false); err != nil {
			t.Error(err)
		}
		if err := step(p); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// useTables does what an agent does to the tables.
func useTables(p *Plane) error {
	key := wire.Key{Hi: 1}
	put := wire.Message{Op: wire.OpPut, Epoch: 1, Key: key, Session: 1, Seq: 1, Value: []byte("v")}
	answered, err := send(p, &put)
	if err == nil && !answered {
		err = errors.New("the write is not answered")
	}
	object, found, getErr := p.Object(key)
	if getErr == nil && !found {
		getErr = errors.New("the object is not there")
	}
	exported := 0
	exportErr := p.Export(dataplane.Everything([]uint16{0}), func(wire.Key, chain.Object) error { exported++; return nil },
		func(chain.SessionKey, chain.Session) error { return nil })
	if exportErr == nil && exported == 0 {
		exportErr = errors.New("nothing is exported")
	}
	_, collectErr := p.Collect()
	_, usageErr := p.Usage()
	_, loadsErr := p.Loads()
	return errors.Join(err, getErr, exportErr, collectErr, usageErr, loadsErr,
		p.Import([]dataplane.KeyedObject{{Key: wire.Key{Hi: 2}, Object: object}}, nil),
		p.SetHeart(chain.Heart{}), p.Remember([]byte("note")),
		p.waitForGrace(), p.ConfigureAll(map[uint16]chain.ShardConfig{0: {Epoch: 1}}), p.Drop([]uint16{0}), configureLone(p),
		podsOf(p))
}

func podsOf(p *Plane) error {
	names, err := p.Pods()
	if err == nil && len(names) != 1 {
		err = fmt.Errorf("pods: %q", names)
	}
	if _, known := net.InterfaceByName("vethpod"); err == nil {
		err = known
	}
	return err
}
