package xdp

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
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
