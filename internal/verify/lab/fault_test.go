package lab

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"
)

// direction returns one direction of a link.
func direction(t *testing.T, l *Lab, from, to string) Direction {
	t.Helper()
	f, err := l.Faults()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(f.Directions, func(d Direction) bool { return d.From == from && d.To == to })
	if i < 0 {
		t.Fatalf("no link from %s to %s", from, to)
	}
	return f.Directions[i]
}

func mustSet(t *testing.T, l *Lab, kind Kind, percent float64, where Where) {
	t.Helper()
	if err := l.SetFault(kind, percent, where); err != nil {
		t.Fatal(err)
	}
}

func TestFaultsStrikeAndAreCounted(t *testing.T) {
	l := mustUp(t, Options{Name: testName("f"), Topology: Line, Nodes: 3, Clients: 1, NoRoot: true})
	a, b := listen(t, l, "n1", 0), listen(t, l, "n2", 0)
	t.Run("loss", func(t *testing.T) { testLoss(t, l, a, b) })
	t.Run("duplicate", func(t *testing.T) { testDuplicate(t, l, a, b) })
	t.Run("corrupt", func(t *testing.T) { testCorrupt(t, l, a, b) })
	t.Run("partition", func(t *testing.T) { testPartition(t, l, a, b) })
	t.Run("clear", func(t *testing.T) {
		if err := l.ClearFaults(t.Context()); err != nil {
			t.Fatal(err)
		}
		assertMesh(t, l)
	})
}

func testLoss(t *testing.T, l *Lab, a, b *net.UDPConn) {
	mustSet(t, l, Loss, 100, Where{Link: "n2-n1"})
	const count = 20
	for i := range count {
		if _, err := a.WriteTo(fmt.Appendf(nil, "lost %d", i), b.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	if n := direction(t, l, "n1", "n2").Lost; n != count {
		t.Errorf("%d of %d frames counted as lost", n, count)
	}
	mustSet(t, l, Loss, 0, Where{Link: "n1-n2"})
	if !arrives(t, a, b, "after", patience) { // so none of the above arrived
		t.Error("nothing arrives after the loss, or something did before")
	}
}

func testDuplicate(t *testing.T, l *Lab, a, b *net.UDPConn) {
	mustSet(t, l, Duplicate, 100, Where{Host: "n1"})
	const count = 20
	for i := range count {
		text := fmt.Sprintf("twice %d", i)
		if !arrives(t, a, b, text, patience) || !receive(b, text, patience) {
			t.Fatalf("%q did not arrive twice", text)
		}
	}
	if n := direction(t, l, "n1", "n2").Duplicated; n != count {
		t.Errorf("%d of %d frames counted as duplicated", n, count)
	}
	if n := direction(t, l, "n2", "n3").Duplicate; n != 0 {
		t.Errorf("a link of other hosts has a chance of %v %%", n)
	}
	mustSet(t, l, Duplicate, 0, Where{})
}

// testCorrupt sends until a frame with damaged text arrives. The kernel drops frames with damaged
// headers. It would also drop the others because of the UDP checksum, which is therefore disabled.
func testCorrupt(t *testing.T, l *Lab, a, b *net.UDPConn) {
	mustSet(t, l, Corrupt, 100, Where{Link: "n1-n2"})
	withoutChecksum(t, a)
	sent := bytes.Repeat([]byte{'x'}, 1000)
	buffer := make([]byte, 2048)
	for range 100 {
		if _, err := a.WriteTo(sent, b.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		_ = b.SetReadDeadline(time.Now().Add(silence))
		n, _, err := b.ReadFrom(buffer)
		if err != nil {
			continue // a header was hit
		}
		if n != len(sent) || bitsApart(sent, buffer[:n]) != 1 {
			t.Fatalf("%d bytes arrived with %d flipped bits, not 1", n, bitsApart(sent, buffer[:n]))
		}
		if direction(t, l, "n1", "n2").Corrupted == 0 {
			t.Error("no frame counted as corrupted")
		}
		mustSet(t, l, Corrupt, 0, Where{})
		return
	}
	t.Error("no damaged frame arrived")
}

func testPartition(t *testing.T, l *Lab, a, b *net.UDPConn) {
	c := listen(t, l, "n3", 0)
	if err := l.Partition(t.Context(), Partition{Groups: [][]string{{"n1"}, {"n2"}}}); err != nil {
		t.Fatal(err)
	}
	before := direction(t, l, "n1", "n2").Cut
	if arrives(t, a, b, "across", silence) {
		t.Error("a datagram crossed the partition")
	}
	if n := direction(t, l, "n1", "n2").Cut; n != before+1 {
		t.Errorf("%d frames counted as cut, not 1", n-before)
	}
	if !arrives(t, a, c, "through", patience) {
		t.Error("n1 does not reach n3, by way of n2: both are on no other side")
	}
	f, err := l.Faults()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(f.Partitions); got != "[n1|n2]" {
		t.Errorf("the partition reads %s", got)
	}
}

func TestLinkDown(t *testing.T) {
	l := mustUp(t, Options{Name: testName("d"), Topology: LeafSpine, Nodes: 2, Clients: 0})
	a, b := listen(t, l, "n1", 0), listen(t, l, "n2", 0)
	for _, link := range []string{"n1-s1", "n2-s1"} {
		if err := l.SetLink(t.Context(), link, false); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 16 {
		if !arrives(t, a, b, fmt.Sprint("around ", i), patience) {
			t.Fatal("the other spine does not carry everything")
		}
	}
	if err := l.SetLink(t.Context(), "n1-s2", false); err != nil {
		t.Fatal(err)
	}
	if arrives(t, a, b, "nowhere", silence) {
		t.Error("n2 is reached though n1 has no link left")
	}
	again, err := Open(l.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
	assertMesh(t, again)
}

func TestBothSpinesCarry(t *testing.T) {
	l := mustUp(t, Options{Name: testName("e"), Topology: LeafSpine, Nodes: 2, Clients: 0})
	to := listen(t, l, "n2", 0)
	for range 64 { // flows; the chance that all take one way is 1 in 2^63
		from := listen(t, l, "n1", 0)
		if !arrives(t, from, to, "flow", patience) {
			t.Fatal("a datagram was lost")
		}
	}
	for _, spine := range []string{"s1", "s2"} {
		if direction(t, l, spine, "n2").Frames == 0 {
			t.Errorf("%s carried nothing", spine)
		}
	}
}

func TestDirectLinksRefuseFaults(t *testing.T) {
	l := mustUp(t, Options{Name: testName("r"), Topology: Line, Nodes: 2, Direct: true})
	if err := l.SetFault(Loss, 1, Where{}); err == nil {
		t.Error("loss was accepted")
	}
	if _, err := l.Faults(); err != nil {
		t.Error(err)
	}
}

func TestBadFaults(t *testing.T) {
	l := mustUp(t, Options{Name: testName("b"), Topology: Line, Nodes: 2, NoRoot: true})
	for what, err := range map[string]error{
		"101 %":                l.SetFault(Loss, 101, Where{}),
		"-1 %":                 l.SetFault(Loss, -1, Where{}),
		"an unknown kind":      l.SetFault("fire", 1, Where{}),
		"an unknown link":      l.SetFault(Loss, 1, Where{Link: "n1-n9"}),
		"an unknown host":      l.SetFault(Loss, 1, Where{Host: "n9"}),
		"one group":            l.Partition(t.Context(), Partition{Groups: [][]string{{"n1"}}}),
		"a host on both sides": l.Partition(t.Context(), Partition{Groups: [][]string{{"n1"}, {"n1", "n2"}}}),
		"a stranger":           l.Partition(t.Context(), Partition{Groups: [][]string{{"n1"}, {"n9"}}}),
		"no such link":         l.SetLink(t.Context(), "n1-n9", false),
		"no agent":             l.StartAgent(t.Context(), "n1"),
	} {
		if err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
}

func bitsApart(a, b []byte) (apart int) {
	for i := range min(len(a), len(b)) {
		for x := a[i] ^ b[i]; x != 0; x &= x - 1 {
			apart++
		}
	}
	return apart
}

func TestPartitionOfOneWayOrOneKind(t *testing.T) {
	l := mustUp(t, Options{Name: testName("w"), Topology: LeafSpine, Nodes: 2, NoRoot: true})
	a, b := listen(t, l, "n1", 0), listen(t, l, "n2", 0)
	for _, c := range []struct {
		cut              string
		traffic          Traffic
		there, backAgain bool
	}{
		{"n1>n2", AllTraffic, false, true},
		{"n2>n1", DataTraffic, true, false},
		{"n1|n2", DataTraffic, false, false},
		{"n1|n2", ControlTraffic, true, true},
	} {
		p, err := ParsePartition(c.cut)
		if err != nil {
			t.Fatal(err)
		}
		p.Traffic = c.traffic
		if err := l.Partition(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		wait := map[bool]time.Duration{true: patience, false: silence}
		if got := arrives(t, a, b, fmt.Sprint(p, " there"), wait[c.there]); got != c.there {
			t.Errorf("%v: from n1 to n2: %v", p, got)
		}
		if got := arrives(t, b, a, fmt.Sprint(p, " back"), wait[c.backAgain]); got != c.backAgain {
			t.Errorf("%v: from n2 to n1: %v", p, got)
		}
	}
	if err := l.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
	assertMesh(t, l)
}

func TestPowerOff(t *testing.T) {
	l := mustUp(t, Options{Name: testName("o"), Topology: Fabric, Nodes: 2, Controllers: 2, Clients: 1})
	assertMesh(t, l)
	a, b := listen(t, l, "n1", 0), listen(t, l, "ctl2", 0)
	if err := l.PowerOff(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	if arrives(t, a, b, "nowhere", silence) {
		t.Error("a host without power was heard")
	}
	if err := l.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
	if arrives(t, a, b, "nowhere either", silence) {
		t.Error("mending links gave a host its power back")
	}
	if err := l.setPower("n1", true); err != nil {
		t.Fatal(err)
	}
	assertMesh(t, l)
}
