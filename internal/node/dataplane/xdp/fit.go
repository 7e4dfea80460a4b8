package xdp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/platform/ethtool"
)

// In native mode an answer leaves by the driver's own way for XDP_TX, past the network stack, and a driver that
// cannot do that takes requests and answers none. On veth the other end has to have a native XDP program too, which
// is not this node's to attach. So ports are looked at before they are attached, and watched as long as the agent
// runs.
const (
	watchPorts = 100 * time.Millisecond
	// watchJudged is the time between two looks once all ports are judged: drivers take long to list their counters.
	watchJudged = time.Second
	// peersWithin is how long after its start a node's neighbours over veth may take to attach programs of their own:
	// those of a chain are started one after the other.
	peersWithin = 10 * time.Second
)

// attachedNative is XDP_ATTACHED_DRV of linux/if_link.h.
const attachedNative = 1

// iflaTargetNetns is IFLA_TARGET_NETNSID of linux/if_link.h.
const iflaTargetNetns = 46

// veth returns the other end of a port that is one of a veth pair; nil: it is none, or that end is out of sight.
func (p *port) veth() *netlink.LinkAttrs {
	own, err := netlink.LinkByIndex(p.index)
	if err != nil || own.Type() != "veth" || own.Attrs().ParentIndex == 0 {
		return nil
	}
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(own.Attrs().ParentIndex)
	request.AddData(message)
	if id := own.Attrs().NetNsID; id >= 0 {
		request.AddData(nl.NewRtAttr(iflaTargetNetns, nl.Uint32Attr(uint32(id))))
	}
	answers, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil || len(answers) != 1 {
		return nil
	}
	other, err := netlink.LinkDeserialize(nil, answers[0])
	if err != nil {
		return nil
	}
	return other.Attrs()
}

// mute says why answers cannot leave a port natively; empty: no reason is known. Before its neighbours have had their
// time a node reports only certain failures: the end of a link in a bridge gets no program from another node.
func (p *port) mute(inTime bool) string {
	other := p.veth()
	switch {
	case other == nil || other.Xdp != nil && other.Xdp.AttachMode == attachedNative:
		return ""
	case other.MasterIndex != 0:
		return fmt.Sprintf("port %s: the other end of the veth pair is in a bridge and has no native XDP program, "+
			"so the driver cannot send answers there", p.name)
	case inTime:
		return ""
	}
	return fmt.Sprintf("port %s: the other end of the veth pair has no native XDP program, so the driver cannot send answers there", p.name)
}

// muteAny is the first reason of any port.
func muteAny(ports []port, inTime bool) string {
	for i := range ports {
		if why := ports[i].mute(inTime); why != "" {
			return why
		}
	}
	return ""
}

// fitting chooses the mode to attach in: generic where native cannot answer, unless the user insists.
func fitting(ports []port, mode Mode) (Mode, string, error) {
	if mode == Generic {
		return mode, "", nil
	}
	why := muteAny(ports, true)
	if why != "" && mode == Native {
		return mode, "", fmt.Errorf("%s: use --mode generic, or auto", why)
	}
	if why != "" {
		mode = Generic
	}
	return mode, why, nil
}

// WatchPorts notices ports out of which native answers do not come, until ctx ends. It falls back to generic mode,
// or, where the user insists on native, says so. A port that came later and that nobody named is left out instead.
func (p *Plane) WatchPorts(ctx context.Context, log *slog.Logger) {
	tick := time.NewTimer(watchPorts)
	defer tick.Stop()
	watched := make(map[int]*watchedPort)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if p.Info().Mode != string(Native) {
			return
		}
		at, why := p.findMute(watched)
		tick.Reset(watchAgain(watched))
		if why == "" {
			continue
		}
		if p.wanted == Native {
			log.Error("requests stay without an answer: start this node with --mode generic, or auto", "because", why)
			return
		}
		if at.late && p.leaveOut(at.index, why) {
			p.look(log)
			continue
		}
		if err := p.fallBack(why); err != nil {
			log.Error("requests stay without an answer, and generic mode cannot be had", "because", why, "error", err)
			p.look(log)
			return
		}
		log.Warn("the data plane goes on in generic mode", "because", why)
	}
}

// watchedPort is what WatchPorts knows of a port.
type watchedPort struct {
	since  time.Time
	judged bool
	last   sent
}

// watchAgain returns the time until the next look at ports.
func watchAgain(watched map[int]*watchedPort) time.Duration {
	for _, w := range watched {
		if !w.judged {
			return watchPorts
		}
	}
	return watchJudged
}

// findMute finds a port out of which answers do not come; without a reason there is none. watched is by index.
func (p *Plane) findMute(watched map[int]*watchedPort) (at port, why string) {
	p.attaching.Lock()
	ports := slices.Clone(p.ports)
	p.attaching.Unlock()
	for i := range ports {
		now, w := ports[i].sent(), watched[ports[i].index]
		if w == nil {
			watched[ports[i].index] = &watchedPort{since: time.Now(), last: now}
			continue
		}
		if now.failed > w.last.failed && now.done == w.last.done {
			at, why = ports[i], fmt.Sprintf("port %s: its driver has sent none of %d answers", ports[i].name, now.failed-w.last.failed)
		}
		w.last = now
		if why == "" && !w.judged && time.Since(w.since) > p.peersWithin {
			w.judged = true
			at, why = ports[i], ports[i].mute(false)
		}
	}
	return at, why
}

// fallBack attaches all ports in generic mode instead.
func (p *Plane) fallBack(why string) error {
	p.attaching.Lock()
	defer p.attaching.Unlock()
	return p.fallBackLocked(why)
}

func (p *Plane) fallBackLocked(why string) error {
	var errs []error
	for i := range p.ports {
		err := p.ports[i].xdp.end(p.pin)
		if err == nil {
			err = p.ports[i].attachXDP(p.objects, Generic, p.pin)
		}
		errs = append(errs, err)
	}
	clear(p.excluded) // a generic port is never mute
	p.setInfo(Generic, why)
	errs = append(errs, p.podsFallBack(why))
	return errors.Join(errs...)
}

func (p *Plane) setInfo(mode Mode, why string) {
	p.info.Store(&dataplane.Info{
		Plane: "xdp", Mode: string(mode), Why: why, Addr: p.node, Options: p.chain, Clones: !p.chain.Relay,
		PortTrouble: p.trouble,
	})
}

// sent counts the frames that XDP_TX sent and dropped at a port, as far as its driver tells.
type sent struct{ done, failed uint64 }

// sent asks the driver. Drivers have their own names: of veth "rx_queue_0_xdp_tx" and "rx_queue_0_xdp_tx_errors", of
// others the like with drops, err or full.
func (p *port) sent() sent {
	var s sent
	names, values := ethtool.Stats(p.name)
	for i, name := range names {
		switch _, kind, found := strings.Cut(name, "xdp_tx"); {
		case !found:
		case kind == "" || kind == "_xmit" || kind == "_packets":
			s.done += values[i]
		case strings.Contains(kind, "err") || strings.Contains(kind, "drop") || strings.Contains(kind, "full"):
			s.failed += values[i]
		}
	}
	return s
}
