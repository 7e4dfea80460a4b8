package agent

import (
	"testing"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// TestLostACKOfHead (W9): a head whose ACK was lost asks the tail as soon as a CAS waits, before the resyncer, and the CAS goes on.
func TestLostACKOfHead(t *testing.T) {
	head, last, client := listen(t), newTail(t), newTail(t)
	start(t, Options{
		Name: "a", Cluster: clusterOf(head.Addr(), last.addr()), Plane: head, ResyncEvery: time.Hour, AcceptDataLoss: true,
	})
	serving(t, head)
	client.send(head.Addr(), put(t, "k", "v", 7, 1))
	if m, ok := last.receive(patience); !ok || m.Op != wire.OpUpdate {
		t.Fatalf("the tail got %+v", m)
	}
	cas := put(t, "k", "w", 7, 2) // of a client that knows its first write to have ended
	cas.Op, cas.Operand = wire.OpCAS, 1
	refused := func() {
		t.Helper()
		client.send(head.Addr(), cas)
		if m, ok := client.receive(patience); !ok || m.Op != wire.OpReply || m.Status() != wire.StatusBusy {
			t.Fatalf("a CAS of a dirty object was answered %+v", m)
		}
	}
	asked := make(chan *wire.Message)
	go func() {
		m, _ := last.receive(patience)
		asked <- m
	}()
	var probe *wire.Message
	for probe == nil {
		refused()
		select {
		case probe = <-asked:
		default:
		}
	}
	if probe.Op != wire.OpProbe || probe.Version != 1 || probe.Key != cas.Key {
		t.Fatalf("the tail got %+v, want a PROBE", probe)
	}
	last.send(head.Addr(), wire.Message{Op: wire.OpAck, Epoch: 1, Shard: cas.Shard, Key: cas.Key, Version: 1})
	eventually(t, "clean", func() bool { o, _ := object(t, head, "k"); return o.Clean() })
	client.send(head.Addr(), cas)
	for {
		m, ok := last.receive(patience)
		if ok && m.Op == wire.OpProbe { // of a refusal before the ACK
			continue
		}
		if !ok || m.Op != wire.OpUpdate || m.Version != 2 {
			t.Fatalf("the tail got %+v, want the CAS", m)
		}
		return
	}
}

// TestAskedInTotal: however many objects writers wait for, only so many are asked about at a time.
func TestAskedInTotal(t *testing.T) {
	head, last, client := listen(t), newTail(t), newTail(t)
	a := configured(t, Options{Name: "a", Cluster: clusterOf(head.Addr(), last.addr()), Plane: head})
	client.send(head.Addr(), put(t, "k", "v", 7, 1))
	if m, ok := last.receive(patience); !ok || m.Op != wire.OpUpdate {
		t.Fatalf("the tail got %+v", m)
	}
	s := prober{plane: a.options.Plane}
	now := time.Now()
	ask := func(times int) {
		t.Helper()
		for range times {
			if err := s.probe(hash(t, "k"), now); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask(2 * maxProbes)
	now = now.Add(probeSpan)
	ask(1)
	for range maxProbes + 1 {
		if m, ok := last.receive(patience); !ok || m.Op != wire.OpProbe {
			t.Fatalf("the tail got %+v, want a PROBE", m)
		}
	}
	marker := wire.Message{Op: wire.OpAck}
	client.send(last.addr(), marker)
	if m, ok := last.receive(patience); !ok || m.Op != marker.Op {
		t.Errorf("more than %d PROBEs", maxProbes+1)
	}
}
