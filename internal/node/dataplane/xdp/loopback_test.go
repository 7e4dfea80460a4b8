package xdp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// ask sends a datagram to the node from its own machine until an answer is accepted.
func ask(datagram []byte, accept func(answer []byte) error) error {
	socket, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(conformance.Me))
	if err != nil {
		return err
	}
	defer socket.Close()
	answer := make([]byte, wire.MaxDatagramBytes)
	last := errors.New("no answer")
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		_, _ = socket.Write(datagram) // no process has the node's socket: the kernel may say so
		if err := socket.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		n, err := socket.Read(answer)
		if err == nil {
			return accept(answer[:n])
		}
		if last = err; !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("the data plane let the request pass: %w", err)
		}
	}
	return last
}

// TestLoopbackNeedsNoAgent: a heartbeat of a controller on the node's machine, and a plain read there, are answered
// while no agent runs.
func TestLoopbackNeedsNoAgent(t *testing.T) {
	onlyWithDetours(t)
	o := testOptions(t)
	heart := chain.Heart{Key: wire.Secret{1}, Node: 1, SetID: 1, Incarnation: 1}
	key := wire.Key{Hi: 1}
	inNamespace(t, func() error {
		for _, tags := range []wire.Tags{wire.TagsOff, wire.TagsAccepted} { // reads are the agent's from there on
			p, err := Open(o)
			if err != nil {
				return err
			}
			put := wire.Message{Op: wire.OpPut, Epoch: 1, Key: key, Session: 1, Seq: 1, Value: []byte("v")}
			err = errors.Join(configureLone(p), p.SetHeart(heart), p.SetTags(tags))
			if err == nil {
				_, err = send(p, &put)
			}
			if err = errors.Join(err, p.Close()); err != nil {
				return err
			}
			beat := wire.Heartbeat{Granter: 2, Majority: 2, Node: 1, SetID: 1, Incarnation: 1, Request: 7}
			err = ask(beat.Append(nil, &heart.Key), func(b []byte) error {
				var answer wire.Heartbeat
				if got := wire.ReadHeartbeat(b, &heart.Key, &answer); got != wire.Accepted || !answer.Answer || answer.Request != 7 {
					return fmt.Errorf("the heartbeat got %v, %+v", got, answer)
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("tags %v: a heartbeat: %w", tags, err)
			}
			if tags != wire.TagsOff {
				continue
			}
			read := wire.Message{Op: wire.OpRead, Key: key, Request: 9}
			err = ask(read.Append(nil), func(b []byte) error {
				var m wire.Message
				if err := wire.DecodeReply(b, &m); err != nil || m.Request != 9 || string(m.Value) != "v" {
					return fmt.Errorf("the answer is %w, %+v", err, m)
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("a read: %w", err)
			}
		}
		return nil
	})
}

// BenchmarkLoopbackTraffic is what nq_grow costs a packet on the loopback device that is not for the node.
func BenchmarkLoopbackTraffic(b *testing.B) {
	o := testOptions(b)
	o.Pin = ""
	inNamespace(b, func() error {
		p, err := Open(o)
		if err != nil {
			return err
		}
		defer p.Close()
		datagram := frameFromHost(&wire.Message{Op: wire.OpRead}, conformance.Me)
		datagram[37]++ // another port
		_, each, err := p.objects.Grow.Benchmark(datagram, b.N, b.ResetTimer)
		b.ReportMetric(float64(each.Nanoseconds()), "ns/packet")
		return err
	})
}
