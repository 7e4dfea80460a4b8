package cni

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/node/pods"
	"github.com/netcraq/netcraq/wire"
)

// TestPodReads: a pod reads by the address that every pod has, the program at its own veth pair answers, and DEL leaves
// nothing.
func TestPodReads(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		m := newMachine(t)
		m.start()
		defer func() { m.stop() }()
		p := newPod(t, "one")
		previous := p.join(1)
		stdout, stderr := m.must("ADD", p, m.chained(previous))
		var have, want any
		if err := json.Unmarshal([]byte(stdout), &have); err != nil || stderr != "" {
			t.Fatalf("ADD: %v: %s%s", err, stdout, stderr)
		}
		if err := json.Unmarshal([]byte(previous), &want); err != nil || !reflect.DeepEqual(have, want) {
			t.Errorf("ADD changed the result: %s", stdout)
		}
		if a := m.answer(p); a.Mode != string(xdp.Native) || a.Why != "" || a.Error != "" {
			t.Errorf("the pod is served: %+v", a)
		}
		if from := p.read(); from != m.addr {
			t.Errorf("%v answered, not the node", from)
		}
		counters, err := m.plane.Counters()
		if err != nil || counters[chain.Counter{Op: wire.OpRead, Outcome: wire.OutcomeAnsweredAbsent}] == 0 {
			t.Errorf("the program counted no read: %v, %v", counters, err)
		}
		m.must("CHECK", p, m.chained(previous))
		m.must("ADD", p, m.chained(previous)) // as a runtime that was killed would
		p.read()
		for range 2 {
			m.must("DEL", p, m.chained(previous))
			m.nothingLeft(p)
		}
		m.refused("CHECK", p, m.chained(previous), 3, "no route")
	})
}

// TestAgentAway: pods start without an agent and are served when it is there. They are still served while it is away
// again, and a pod that ends then leaves nothing.
func TestAgentAway(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		m := newMachine(t)
		p := newPod(t, "early")
		previous := p.join(1)
		if _, stderr := m.must("ADD", p, m.chained(previous)); !strings.Contains(stderr, "no agent") {
			t.Errorf("ADD does not say that there is no agent: %s", stderr)
		}
		m.refused("CHECK", p, m.chained(previous), 11, "no agent")
		if _, stderr := m.must("STATUS", nil, m.config("")); !strings.Contains(stderr, "no agent") {
			t.Errorf("STATUS does not say that there is no agent: %s", stderr)
		}
		m.start()
		p.read()
		m.stop()
		p.read() // the program stays in the kernel
		m.must("DEL", p, m.chained(previous))
		m.nothingLeft(p)
		m.start()
		defer func() { m.stop() }()
		m.must("ADD", p, m.chained(previous))
		p.read()
		m.stop()
		if err := m.dir.Delete(p.name, "eth0"); err != nil { // a pod that ended while nothing looked
			t.Fatal(err)
		}
		m.start()
		m.answer(p)
		if pins, err := filepath.Glob(filepath.Join(m.pins, "*", "pod-*")); err != nil || len(pins) > 0 {
			t.Errorf("pins: %v, %v", pins, err)
		}
	})
}

// TestStaleRecords: the record of an earlier interface of the same name serves nothing, and the next ADD replaces it.
// GC removes the records that the runtime does not know, of its own network only.
func TestStaleRecords(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		m := newMachine(t)
		m.start()
		defer func() { m.stop() }()
		p := newPod(t, "again")
		previous := p.join(1)
		m.must("ADD", p, m.chained(previous))
		p.read()
		l, err := netlink.LinkByName("vethagain")
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkDel(l); err != nil {
			t.Fatal(err)
		}
		previous = p.join(1)
		if a := m.answer(p); !strings.Contains(a.Error, "stale") {
			t.Errorf("with a stale record: %+v", a)
		}
		m.refused("CHECK", p, m.chained(previous), 3, "no route")
		m.must("ADD", p, m.chained(previous))
		p.read()

		m.must("GC", nil, m.config(`,"cni.dev/valid-attachments":[{"containerID":"again","ifname":"eth0"}]`))
		if a := m.answer(p); a.Mode == "" {
			t.Errorf("GC ended a pod that is valid: %+v", a)
		}
		m.must("GC", nil, strings.Replace(m.config(""), `"pods"`, `"others"`, 1))
		if a := m.answer(p); a.Mode == "" {
			t.Errorf("GC of another network ended a pod: %+v", a)
		}
		m.must("GC", nil, m.config(""))
		if records, err := m.dir.List(); err != nil || len(records) > 0 {
			t.Errorf("records: %+v, %v", records, err)
		}
		m.must("ADD", p, m.chained(previous))
		m.must("DEL", p, m.chained(previous))
		m.nothingLeft(p)
	})
}

// TestLateDelete: the record of an earlier pod, whose DEL comes late, names the same interface as a pod of now. The pod
// is served, also when no agent runs as the earlier one is deleted.
func TestLateDelete(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		m := newMachine(t)
		m.start()
		p := newPod(t, "now")
		previous := p.join(1)
		m.must("ADD", p, m.chained(previous))
		earlier := pods.Record{Network: "pods", Container: "yesterday", Interface: "eth0", Host: "vethnow",
			HostIndex: 1 << 20, Address: netip.MustParseAddr(DefaultAddress)}
		if err := m.dir.Put(earlier); err != nil {
			t.Fatal(err)
		}
		if a := m.answer(p); a.Mode != string(xdp.Native) || a.Error != "" {
			t.Errorf("beside a stale record: %+v", a)
		}
		if a := m.answer(&pod{t: t, name: "yesterday"}); !strings.Contains(a.Error, "stale") {
			t.Errorf("the stale record: %+v", a)
		}
		m.stop()
		m.must("DEL", &pod{t: t, name: "yesterday"}, m.chained(previous))
		pins, err := filepath.Glob(filepath.Join(m.pins, "*", "pod-port-vethnow"))
		if err != nil || len(pins) != 1 {
			t.Fatalf("pins of the pod of now: %v, %v", pins, err)
		}
		p.read()
		held, err := link.LoadPinnedLink(pins[0], nil) // as by an agent that is about to end
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		m.must("DEL", p, m.chained(previous))
		m.nothingLeft(p)
	})
}

// TestGenericMode: where the node's ports are in generic mode, pods are served in it too, and ADD says so.
func TestGenericMode(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		m := newMachine(t)
		m.mode = xdp.Generic
		m.start()
		defer func() { m.stop() }()
		p := newPod(t, "slow")
		previous := p.join(1)
		if _, stderr := m.must("ADD", p, m.chained(previous)); !strings.Contains(stderr, "generic") {
			t.Errorf("ADD does not name the mode: %s", stderr)
		}
		p.read()
		m.must("DEL", p, m.chained(previous))
		m.nothingLeft(p)
	})
}

// TestBadInput: what is wrong has the code that CNI gives it, and leaves nothing.
func TestBadInput(t *testing.T) {
	onMachine(t, func(t *testing.T) {
		m := newMachine(t)
		p, alone := newPod(t, "pod"), newPod(t, "alone")
		previous := p.join(1)
		m.refused("ADD", p, strings.Replace(m.chained(previous), "1.1.0", "9.0.0", 1), 1, "")
		m.refused("ADD", p, m.config(""), 7, "prevResult")
		m.refused("ADD", p, m.config(`,"address":"nowhere"`), 7, "nowhere")
		m.refused("ADD", p, m.config(`,"address":"127.0.0.1"`), 7, "127.0.0.1")
		m.refused("ADD", p, m.config(`,"address":5`), 6, "")
		m.refused("ADD", alone, m.chained(previous), 3, "no interface")
		gone := &pod{t: t, name: "gone", netns: "/proc/self/ns/gone"}
		m.refused("ADD", gone, m.chained(previous), 3, "no network namespace")
		err := alone.thread.Do(func() error {
			bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
			bridge.Name = "eth0"
			return netlink.LinkAdd(bridge)
		})
		if err != nil {
			t.Fatal(err)
		}
		m.refused("ADD", alone, m.chained(previous), 7, "bridge")
		m.refused("GC", nil, strings.Replace(m.config(""), "1.1.0", "1.0.0", 1), 1, "GC")
		m.must("DEL", gone, m.config(""))
		m.nothingLeft(p)

		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		m.dir = pods.Dir(file)
		m.refused("STATUS", nil, m.config(""), 50, "records")
	})
}
