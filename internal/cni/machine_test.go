package cni

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/node/pods"
	"github.com/netcraq/netcraq/internal/platform/thread"
	"github.com/netcraq/netcraq/wire"
)

// within bounds every wait; a machine under load may take long.
const within = 60 * time.Second

// machine has a node, its agent's part for pods, and the plugin's configuration.
type machine struct {
	t    *testing.T
	dir  pods.Dir
	pins string
	addr netip.AddrPort
	mode xdp.Mode

	members []netip.AddrPort // of the chain, the node last

	plane *xdp.Plane
	stop  func()
}

func newMachine(t *testing.T) *machine {
	addr := netip.AddrPortFrom(netip.MustParseAddr(nodeAddr), wire.Port)
	return &machine{t: t, dir: pods.Dir(t.TempDir()), pins: pods.PinRoot, addr: addr, mode: xdp.Auto,
		members: []netip.AddrPort{addr}}
}

// start starts the node, or takes over the one that an earlier start left in the kernel.
func (m *machine) start() {
	m.t.Helper()
	address := netip.MustParseAddr(DefaultAddress)
	plane, err := xdp.Open(xdp.Options{Node: m.addr, Ports: []string{uplink}, Pin: filepath.Join(m.pins, "n1"),
		Mode: m.mode, Pods: address, Chain: chain.Options{Shards: 1, CellBytes: 64, MaxObjects: 8, MaxSessions: 8}})
	if err != nil {
		m.t.Fatal(err)
	}
	config := chain.ShardConfig{Epoch: 1, State: chain.Active, Self: len(m.members) - 1, Members: m.members}
	err = errors.Join(plane.ConfigureAll(map[uint16]chain.ShardConfig{0: config}), plane.Grant(0, dataplane.Forever))
	if err != nil {
		m.t.Fatal(err)
	}
	server, err := pods.Listen(m.dir, address, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, plane) }()
	m.plane = plane
	m.stop = func() {
		cancel()
		if err := errors.Join(<-done, plane.Close()); err != nil {
			m.t.Error(err)
		}
	}
}

// pod is a network namespace with a veth pair, as a plugin before this one makes it.
type pod struct {
	t      *testing.T
	name   string // the container's identifier
	thread *thread.Thread
	netns  string
	ifname string // eth0 if empty
}

func newPod(t *testing.T, name string) *pod {
	t.Helper()
	p := &pod{t: t, name: name}
	var err error
	p.thread, err = thread.Start(func() error {
		p.netns = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		return unix.Unshare(unix.CLONE_NEWNET)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.thread.Close)
	return p
}

// join makes the veth pair with addresses as ptp makes them, and returns its result.
func (p *pod) join(number int) string {
	p.t.Helper()
	gateway, own := fmt.Sprintf("10.88.%d.1", number), fmt.Sprintf("10.88.%d.2", number)
	host := p.connect("veth" + p.name)
	err := errors.Join(addAddress(host, gateway+"/24"), p.thread.Do(func() error {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return errors.Join(addAddress("eth0", own+"/24"),
			netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: net.ParseIP(gateway)}))
	}))
	if err != nil {
		p.t.Fatal(err)
	}
	return fmt.Sprintf(`{"cniVersion":"1.1.0","interfaces":[{"name":%q},{"name":"eth0","sandbox":%q}],
		"ips":[{"address":"%s/24","gateway":%q,"interface":1}]}`, host, p.netns, own, gateway)
}

// connect makes the veth pair of an interface without addresses, and returns the name of the host's end.
func (p *pod) connect(host string) string {
	p.t.Helper()
	pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: p.eth()}
	pair.Name = host
	ns, err := os.Open(p.netns)
	if err != nil {
		p.t.Fatal(err)
	}
	defer ns.Close()
	pair.PeerNamespace = netlink.NsFd(int(ns.Fd()))
	err = errors.Join(netlink.LinkAdd(pair), netlink.LinkSetUp(pair), p.thread.Do(func() error {
		l, err := netlink.LinkByName(p.eth())
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	}))
	if err != nil {
		p.t.Fatal(err)
	}
	return host
}

func (p *pod) eth() string { return cmp.Or(p.ifname, "eth0") }

func addAddress(name, address string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	parsed, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	return netlink.AddrAdd(l, parsed)
}

// read reads a key by the address that every pod has, and returns the sender of the answer. The key was never written,
// which is answered where a clean object would be.
func (p *pod) read() netip.AddrPort {
	p.t.Helper()
	var from netip.AddrPort
	err := p.thread.Do(func() error {
		conn, err := net.ListenUDP("udp4", nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		to := netip.AddrPortFrom(netip.MustParseAddr(DefaultAddress), wire.Port)
		message := (&wire.Message{Op: wire.OpRead, Request: 7, Key: wire.Key{Hi: 1}}).Append(nil)
		answer := make([]byte, wire.MaxDatagramBytes)
		for end := time.Now().Add(within); time.Now().Before(end); {
			if _, err := conn.WriteToUDPAddrPort(message, to); err != nil {
				return err
			}
			if err := conn.SetReadDeadline(time.Now().Add(within / 60)); err != nil {
				return err
			}
			var n int
			if n, from, err = conn.ReadFromUDPAddrPort(answer); err != nil {
				continue
			}
			var m wire.Message
			if err := wire.DecodeReply(answer[:n], &m); err != nil || m.Request != 7 || m.Status() != wire.StatusNotFound {
				return fmt.Errorf("the answer is %+v, %w", m, err)
			}
			return nil
		}
		return errors.New("no answer")
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return from
}

// run runs a plugin, this one if path is empty.
func (m *machine) run(path, command string, p *pod, config string) (stdout, stderr string, err error) {
	m.t.Helper()
	c := exec.CommandContext(m.t.Context(), path)
	if path == "" {
		c = exec.CommandContext(m.t.Context(), "/proc/self/exe")
	}
	var out, log bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(config), &out, &log
	c.Env = append(os.Environ(), asPlugin+"=1", "CNI_COMMAND="+command, "CNI_PATH="+debianPlugins)
	if p != nil {
		c.Env = append(c.Env, "CNI_CONTAINERID="+p.name, "CNI_NETNS="+p.netns, "CNI_IFNAME="+p.eth())
	}
	err = c.Run()
	return out.String(), log.String(), err
}

// config is the plugin's, with more members.
func (m *machine) config(more string) string {
	return fmt.Sprintf(`{"cniVersion":"1.1.0","name":"pods","type":"netcraq-cni","directory":%q,"pins":%q%s}`,
		m.dir, m.pins, more)
}

func (m *machine) chained(previous string) string { return m.config(`,"prevResult":` + previous) }

// must runs this plugin, which has to succeed.
func (m *machine) must(command string, p *pod, config string) (stdout, stderr string) {
	m.t.Helper()
	stdout, stderr, err := m.run("", command, p, config)
	if err != nil {
		m.t.Fatalf("%s: %v: %s%s", command, err, stdout, stderr)
	}
	return stdout, stderr
}

// refused runs this plugin, which has to fail with an error of CNI.
func (m *machine) refused(command string, p *pod, config string, code int, message string) {
	m.t.Helper()
	stdout, stderr, err := m.run("", command, p, config)
	var e struct {
		Code    int
		Msg     string
		Details string
	}
	if err == nil || json.Unmarshal([]byte(stdout), &e) != nil || e.Code != code ||
		!strings.Contains(e.Msg+e.Details, message) {
		m.t.Errorf("%s: want error %d %q, have %v: %s%s", command, code, message, err, stdout, stderr)
	}
}

// answer is how the agent serves a pod.
func (m *machine) answer(p *pod) pods.Answer {
	m.t.Helper()
	a, err := m.dir.Ask(m.t.Context(), p.name, p.eth())
	if err != nil {
		m.t.Fatal(err)
	}
	return a
}

// nothingLeft fails if anything of a pod is left on the machine, or its way to the chain in the pod.
func (m *machine) nothingLeft(p *pod) {
	m.t.Helper()
	if records, err := m.dir.List(); err != nil || len(records) > 0 {
		m.t.Errorf("records: %+v, %v", records, err)
	}
	if pins, err := filepath.Glob(filepath.Join(m.pins, "*", "pod-*")); err != nil || len(pins) > 0 {
		m.t.Errorf("pins: %v, %v", pins, err)
	}
	if l, err := netlink.LinkByName("veth" + p.name); err == nil && l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached {
		m.t.Error("a program is attached to the pod's interface")
	}
	err := p.thread.Do(func() error {
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, r := range routes {
			if r.Dst != nil && r.Dst.IP.String() == DefaultAddress {
				err = errors.Join(err, fmt.Errorf("the route %v is left", r))
			}
		}
		neighbours, listed := netlink.NeighList(0, netlink.FAMILY_V4)
		for _, n := range neighbours {
			if n.IP.String() == DefaultAddress && n.State == netlink.NUD_PERMANENT {
				err = errors.Join(err, fmt.Errorf("the neighbour entry %v is left", n))
			}
		}
		if l, err := netlink.LinkByName("eth0"); err == nil && l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached {
			return errors.New("a program is attached to the pod's end")
		}
		return errors.Join(err, listed)
	})
	if err != nil {
		m.t.Error(err)
	}
}
