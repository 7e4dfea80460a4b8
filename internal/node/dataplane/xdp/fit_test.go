package xdp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/platform/eintr"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// TestNeighboursAreLookedAtLater gives a node's neighbour over veth no program in time: the node goes on in generic
// mode, or, where the user insists on native mode, says what is wrong. With a program there native mode is right.
func TestNeighboursAreLookedAtLater(t *testing.T) {
	for _, mode := range []Mode{Auto, Native} {
		o := testOptions(t)
		o.Mode, o.Pin = mode, ""
		inNamespace(t, func() error {
			p, err := Open(o)
			if err != nil {
				return err
			}
			defer p.Close()
			if now := p.Info().Mode; now != string(Native) {
				return fmt.Errorf("the neighbour has its time, and the mode is %s", now)
			}
			p.peersWithin = 0
			var log strings.Builder
			p.WatchPorts(t.Context(), slog.New(slog.NewTextHandler(&log, nil))) // ends when it has judged
			const reason = "the other end of the veth pair has no native XDP program"
			info := p.Info()
			if fell := info.Mode == string(Generic); fell != (mode == Auto) || fell && !strings.Contains(info.Why, reason) {
				return fmt.Errorf("asked for mode %s: %s, because %q: %s", mode, info.Mode, info.Why, &log)
			}
			if !strings.Contains(log.String(), reason) {
				return fmt.Errorf("asked for mode %s: %s", mode, &log)
			}
			far, err := netlink.LinkByName("far")
			if err != nil {
				return err
			}
			peer, err := link.AttachXDP(link.XDPOptions{
				Program: p.objects.Ingress, Interface: far.Attrs().Index, Flags: link.XDPDriverMode,
			})
			if err != nil {
				return err
			}
			defer peer.Close()
			if why := p.ports[0].mute(false); why != "" {
				return errors.New(why)
			}
			return nil
		})
	}
}

// TestDriversAreLookedAt has requests arrive at a native node whose driver cannot send the answers, though no neighbour is
// judged yet: the node goes on in generic mode as soon as the driver has counted one that it did not send.
func TestDriversAreLookedAt(t *testing.T) {
	o := testOptions(t)
	o.Mode, o.Pin = Auto, ""
	inNamespace(t, func() error {
		p, err := openLone(o)
		if err != nil {
			return err
		}
		defer p.Close()
		p.peersWithin = time.Hour
		far, err := netlink.LinkByName("far")
		if err != nil {
			return err
		}
		raw, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(raw)
		read := wire.Message{Op: wire.OpRead, Epoch: 1, Key: wire.Key{Hi: 1}}
		request := frame.Append(nil, &frame.Packet{From: at(9), To: conformance.Me, Message: read.Append(nil)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		to := &unix.SockaddrLinklayer{Ifindex: far.Attrs().Index}
		var sending sync.WaitGroup
		sending.Go(func() { // until the node has noticed
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				if err := eintr.Retry(func() error { return unix.Sendto(raw, request, 0, to) }); err != nil {
					t.Error(err)
				}
				<-tick.C
			}
		})
		p.WatchPorts(ctx, slog.New(slog.DiscardHandler))
		cancel()
		sending.Wait()
		if info := p.Info(); info.Mode != string(Generic) || !strings.Contains(info.Why, "its driver has sent none of") {
			return fmt.Errorf("mode %s, because %q", info.Mode, info.Why)
		}
		return nil
	})
}
