package xdp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/netcraq/netcraq/internal/platform/bpflink"
)

const (
	// settle is the least time between two looks at the interfaces: a change of one is several events.
	settle = 20 * time.Millisecond
	// lookAgain is when ports in trouble are looked at again without an event: an attachment may fail for a while.
	lookAgain = time.Second
)

const portTrouble = "the data plane does not answer on all its ports; meanwhile the agent answers what the kernel gives to " +
	"its socket, more slowly"

// FollowLinks keeps the programs on the node's ports as interfaces come, go and change, until ctx ends. It logs each
// change, and [Plane.Info] says what is wrong meanwhile. It follows the interfaces of the calling thread's namespace.
func (p *Plane) FollowLinks(ctx context.Context, log *slog.Logger) {
	if trouble := p.Info().PortTrouble; trouble != "" {
		log.Warn(portTrouble, "because", trouble)
	}
	for ctx.Err() == nil {
		events, done := make(chan netlink.LinkUpdate), make(chan struct{})
		err := netlink.LinkSubscribe(events, done)
		if err != nil {
			log.Error("interfaces are looked at once a second only: the kernel reports no changes", "because", err)
			close(events)
		}
		p.followEvents(ctx, log, events)
		close(done)
		for range events { // until the socket is closed
		}
	}
}

// followEvents looks at the interfaces now and after each event, until the events or ctx end.
func (p *Plane) followEvents(ctx context.Context, log *slog.Logger, events <-chan netlink.LinkUpdate) {
	for {
		p.look(log)
		wait := time.NewTimer(settle)
		var again <-chan time.Time
		if after, ok := p.nextLook(time.Now()); ok {
			again = time.After(after)
		}
		open := true
		for settled, event := false, false; open && !(settled && event); {
			select {
			case <-ctx.Done():
				return
			case _, open = <-events:
				event = true
			case <-wait.C:
				settled = true
			case <-again:
				event = true
			}
		}
		if !open { // more events than the socket had memory for
			select {
			case <-ctx.Done():
			case <-time.After(lookAgain):
			}
			return
		}
	}
}

// findPorts finds the ports at the start, and the attachments of a predecessor that stand in their way. That a port of a
// new node cannot be one is an error: the command line may be wrong. A node that takes over a data plane starts in any
// case, so that it keeps its objects.
func (p *Plane) findPorts(o Options) (wrong []portAttachment, err error) {
	cards, err := readCards(o.Ports)
	if err != nil {
		return nil, fmt.Errorf("reading the interfaces: %w", err)
	}
	var attachments []portAttachment
	adopted := o.Pin != "" && Pinned(o.Pin)
	if adopted {
		if attachments, err = pinnedAttachments(o.Pin); err != nil {
			return nil, err
		}
	}
	c := choose(o.Ports, cards, attachments, o.Chain, nil)
	if c.absent != "" && !adopted {
		return nil, errors.New(c.absent)
	}
	p.trouble = c.trouble
	for _, at := range c.ports {
		p.ports = append(p.ports, port{name: at.name, index: at.index, mac: at.mac})
	}
	return c.wrong(), nil
}

// wrong lists a predecessor's attachments that stand in the way of ports: they have the name of one and are on another
// interface, or the other way round. The rest of those to end go on until the ports are attached.
func (c *choice) wrong() []portAttachment {
	return slices.DeleteFunc(slices.Clone(c.end), func(a portAttachment) bool {
		return !slices.ContainsFunc(c.ports, func(p chosen) bool { return p.name == a.name || p.index == a.index })
	})
}

// detachPinned ends attachments of a predecessor.
func detachPinned(pin string, attachments []portAttachment) error {
	for _, a := range attachments {
		for _, prefix := range []string{portPin, growPin} {
			if err := bpflink.Detach(filepath.Join(pin, prefix+a.name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// nextLook returns after which time to look at the interfaces without an event; not ok: not at all.
func (p *Plane) nextLook(now time.Time) (after time.Duration, ok bool) {
	if p.Info().PortTrouble != "" {
		return lookAgain, true
	}
	p.attaching.Lock()
	defer p.attaching.Unlock()
	for _, r := range p.excluded {
		if wait := max(r.again.Sub(now), settle); !r.again.IsZero() && (!ok || wait < after) {
			after, ok = wait, true
		}
	}
	return after, ok
}

// look makes the ports what they should be now, and logs what changed.
func (p *Plane) look(log *slog.Logger) {
	p.attaching.Lock()
	defer p.attaching.Unlock()
	trouble, err := p.adjust(log)
	if err != nil {
		trouble = append(trouble, err.Error())
	}
	now := strings.Join(trouble, "; ")
	if now == p.trouble {
		return
	}
	p.trouble = now
	p.setInfo(Mode(p.Info().Mode), p.Info().Why)
	if now == "" {
		log.Info("the data plane answers on all its ports")
		return
	}
	log.Warn(portTrouble, "because", now)
}

// adjust ends attachments to interfaces that are ports no more, and attaches the program to those that became ports.
func (p *Plane) adjust(log *slog.Logger) (trouble []string, err error) {
	cards, err := readCards(p.names)
	if err != nil {
		return nil, fmt.Errorf("reading the interfaces: %w", err)
	}
	maps.DeleteFunc(p.excluded, func(index int, _ exclusion) bool {
		return !slices.ContainsFunc(cards, func(c card) bool { return c.index == index })
	})
	attachments := make([]portAttachment, len(p.ports))
	for i := range p.ports {
		if attachments[i], err = p.ports[i].xdp.where(); err != nil {
			return nil, fmt.Errorf("port %s: %w", p.ports[i].name, err)
		}
		attachments[i].name = p.ports[i].name
	}
	c := choose(p.names, cards, attachments, p.chain, p.avoided(time.Now()))
	if c.trouble != "" {
		trouble = append(trouble, c.trouble)
	}
	p.unfilled = p.endGone(c, log) || p.unfilled
	for _, at := range c.ports {
		if at.hasProgram {
			continue
		}
		if err := p.addPort(at.card, log); err != nil {
			trouble = append(trouble, err.Error())
			continue
		}
		if r, out := p.excluded[at.index]; out {
			c.left = append(c.left, leftOut{at.name, r.why})
			continue
		}
		p.unfilled = true
	}
	p.logLeftOut(log, c.left)
	if !p.unfilled {
		return trouble, nil
	}
	if err := fillGroups(p.objects, p.ports); err != nil {
		return trouble, fmt.Errorf("preparing ACK multicast: %w", err)
	}
	p.unfilled = false
	return trouble, nil
}

// logLeftOut logs which interfaces are no ports, each once.
func (p *Plane) logLeftOut(log *slog.Logger, left []leftOut) {
	now := make(map[string]string)
	for _, l := range left {
		if now[l.name] = l.why; p.left[l.name] != l.why {
			log.Warn("the agent answers on this interface, more slowly than the data plane would", "interface", l.name, "because", l.why)
		}
	}
	p.left = now
}

// endGone ends ports that are none any more, and updates the others. It reports whether that changed any.
func (p *Plane) endGone(c choice, log *slog.Logger) (changed bool) {
	var kept []port
	for i := range p.ports {
		now := p.ports[i]
		at := slices.IndexFunc(c.ports, func(q chosen) bool { return q.hasProgram && q.name == now.name })
		if at >= 0 {
			changed = changed || now.mac != c.ports[at].mac
			now.mac = c.ports[at].mac
			kept = append(kept, now)
			continue
		}
		changed = true
		log := log.With("port", now.name, "index", now.index)
		if err := errors.Join(now.xdp.end(p.pin), now.grow.end(p.pin)); err != nil {
			log.Error("the program may still answer on an interface that is no port", "error", err)
		}
		log.Warn("the data plane answers on a port no more: its interface was removed or changed")
	}
	p.ports = kept
	return changed
}

// addPort attaches the programs to another interface, in the mode of the ports. Where all ports are native and this one
// cannot be, all become generic; unless nobody named it, then it is left out.
func (p *Plane) addPort(at card, log *slog.Logger) error {
	mode := Mode(p.Info().Mode)
	added := []port{{name: at.name, index: at.index, mac: at.mac, late: true}}
	now, why, err := mode, "", error(nil)
	if mode == Native {
		now, why, err = attachFitting(added, p.objects, p.wanted, p.pin)
	} else if err = attachEach(added, p.objects, mode, p.pin); err != nil {
		detachAll(added, p.pin)
	}
	if err != nil {
		return err
	}
	if now != mode {
		if p.mayLeaveOut(at.index) {
			p.exclude(at.index, why, time.Now())
			detachAll(added, p.pin)
			return nil
		}
		if err := p.fallBackLocked(why); err != nil {
			detachAll(added, p.pin)
			return err
		}
	}
	delete(p.excluded, at.index)
	p.ports = append(p.ports, added[0])
	log.Info("the data plane answers on a port", "port", at.name, "index", at.index, "mode", now)
	return nil
}

// readCards reads the named interfaces of the calling thread's namespace, or all if there are no names.
func readCards(names []string) ([]card, error) {
	var links []netlink.Link
	for _, name := range names {
		l, err := netlink.LinkByName(name)
		if errors.As(err, new(netlink.LinkNotFoundError)) || err == nil && l.Attrs().Name != name { // an alternative name
			continue
		}
		if err != nil {
			return nil, err
		}
		links = append(links, l)
	}
	if len(names) == 0 {
		var err error
		if links, err = allLinks(); err != nil {
			return nil, err
		}
	}
	cards := make([]card, 0, len(links))
	for _, l := range links {
		cards = append(cards, cardOf(l))
	}
	return cards, nil
}

// allLinks lists the interfaces. The kernel interrupts a list when an interface changes.
func allLinks() (links []netlink.Link, err error) {
	for range 10 {
		if links, err = netlink.LinkList(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return links, err
		}
	}
	return links, err
}

func cardOf(l netlink.Link) card {
	a := l.Attrs()
	c := card{name: a.Name, index: a.Index, mtu: a.MTU, up: a.Flags&net.FlagUp != 0, kind: l.Type(), master: a.MasterIndex}
	c.other = a.Flags&net.FlagLoopback != 0 || len(a.HardwareAddr) != len(c.mac)
	copy(c.mac[:], a.HardwareAddr)
	if a.Xdp != nil && a.Xdp.Attached {
		c.program = a.Xdp.ProgId
	}
	return c
}

// pinnedAttachments lists the attachments to ports that a predecessor pinned.
func pinnedAttachments(pin string) ([]portAttachment, error) {
	paths, err := PortPins(pin)
	if err != nil {
		return nil, err
	}
	var attachments []portAttachment
	for _, path := range paths {
		l, err := link.LoadPinnedLink(path, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		a := attachment{link: l}
		at, err := a.where()
		if err = errors.Join(err, a.close()); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		at.name = strings.TrimPrefix(filepath.Base(path), portPin)
		attachments = append(attachments, at)
	}
	return attachments, nil
}
