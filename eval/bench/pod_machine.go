package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/pods"
	"github.com/netcraq/netcraq/internal/platform/eintr"
	"github.com/netcraq/netcraq/internal/platform/owned"
)

// podsAddress is where pods reach the node, of no machine.
var podsAddress = netip.MustParseAddr("169.254.77.1")

// podMachine is a machine with a node, and two pods on a bridge. A third pod is on another machine without a node.
type podMachine struct {
	mesh       *mesh
	machine    *host
	dir        pods.Dir
	fleet      *fleet
	pods       [3]*host
	answeredAt string
	reader     *caller // from the first pod
	sender     *caller // from the first pod to the third
}

const (
	neighbour = 1 // the pod on the same bridge
	farPod    = 2
)

const (
	bridgeName   = "cni0"
	podInterface = "eth0"
)

func podHostEnd(i int) string { return fmt.Sprintf("veth-pod%d", i) }

// machineOf is the number of a pod's machine.
func machineOf(pod int) int { return pod / farPod }

func podAddr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 79, byte(machineOf(i)), byte(i + 1)})
}

// bridgeAddr is that of a machine for its pods.
func bridgeAddr(machine int) netip.Addr { return netip.AddrFrom4([4]byte{10, 79, byte(machine), 254}) }

// inPodNetwork is an address with the length of its machine's network of pods.
func inPodNetwork(addr netip.Addr) *net.IPNet {
	network := single(addr)
	network.Mask[3] = 0
	return network
}

func newPodMachine(ctx context.Context, m *mesh, machine *host, o *PodOptions) (*podMachine, error) {
	p := &podMachine{mesh: m, machine: machine}
	m.undo.add(func() {
		for _, c := range []*caller{p.reader, p.sender} {
			if c != nil {
				c.close()
			}
		}
	})
	dir, err := owned.Dir(os.TempDir(), "netcraq-pods-", os.RemoveAll)
	if err != nil {
		return nil, err
	}
	m.undo.add(func() { os.RemoveAll(dir) })
	p.dir = pods.Dir(dir)
	if err := p.makePods(machine, 0, neighbour); err != nil {
		return nil, err
	}
	if err := p.makeOtherMachine(); err != nil {
		return nil, err
	}
	p.fleet, err = newFleet(ctx, m, []*host{machine}, &RestartOptions{Keys: 1, ValueBytes: o.ValueBytes, Ready: o.Ready,
		Agent: func(a AgentOptions) []string {
			a.Pods, a.PodDir = podsAddress, dir
			return o.Agent(a)
		}})
	return p, err
}

// makeOtherMachine makes a machine with a pod, and a link to it on which no node is.
func (p *podMachine) makeOtherMachine() error {
	other, err := p.mesh.host()
	if err != nil {
		return err
	}
	near, far, err := connect(p.machine, "to-other", linkAddr(0, 1), other, "to-n0", linkAddr(0, 2))
	if err != nil {
		return err
	}
	if err := p.makePods(other, farPod); err != nil {
		return err
	}
	err = errors.Join(p.machine.handle.RouteAdd(routeToPods(farPod, near, far)),
		other.handle.RouteAdd(routeToPods(0, far, near)))
	if err != nil {
		return fmt.Errorf("route to the pods of another machine: %w", err)
	}
	return errors.Join(near.awaitUp(), far.awaitUp())
}

// routeToPods is the route to the network of a pod.
func routeToPods(pod int, by, to *port) *netlink.Route {
	network := inPodNetwork(podAddr(pod))
	network.IP = network.IP.Mask(network.Mask)
	return &netlink.Route{Dst: network, Gw: to.addr.AsSlice(), LinkIndex: by.index, Flags: int(netlink.FLAG_ONLINK)}
}

// makePods makes pods on a machine as the plugin bridge would.
func (p *podMachine) makePods(machine *host, numbers ...int) error {
	gateway := bridgeAddr(machineOf(numbers[0]))
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}
	if err := machine.handle.LinkAdd(bridge); err != nil {
		return fmt.Errorf("make a bridge: %w", err)
	}
	err := errors.Join(machine.handle.AddrAdd(bridge, &netlink.Addr{IPNet: inPodNetwork(gateway)}),
		machine.handle.LinkSetUp(bridge))
	if err != nil {
		return err
	}
	for _, i := range numbers {
		pod, err := p.mesh.host()
		if err != nil {
			return err
		}
		p.pods[i] = pod
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: podHostEnd(i), MasterIndex: bridge.Index},
			PeerName: podInterface, PeerNamespace: netlink.NsFd(pod.ns)}
		if err := machine.handle.LinkAdd(pair); err != nil {
			return fmt.Errorf("make a veth pair: %w", err)
		}
		if err := machine.handle.LinkSetUp(pair); err != nil {
			return err
		}
		end, err := pod.handle.LinkByName(podInterface)
		if err != nil {
			return err
		}
		err = errors.Join(pod.handle.AddrAdd(end, &netlink.Addr{IPNet: inPodNetwork(podAddr(i))}), pod.handle.LinkSetUp(end),
			pod.handle.RouteAdd(&netlink.Route{Gw: gateway.AsSlice()}))
		if err != nil {
			return err
		}
		if err := (&port{host: pod, name: podInterface, index: end.Attrs().Index}).awaitUp(); err != nil {
			return err
		}
	}
	return nil
}

// namespaceOf returns the path of a host's network namespace, for other processes too.
func namespaceOf(h *host) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(h.ns)) }

// plug runs the CNI plugin for the first pod, as a container runtime does, and asks the agent how it serves the pod.
func (p *podMachine) plug(ctx context.Context, plugin []string) error {
	const container = "pod0"
	namespace := namespaceOf(p.pods[0])
	config := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"pods","type":"netcraq-cni","address":%q,"directory":%q,"pins":%q,
		"prevResult":{"cniVersion":"1.1.0","interfaces":[{"name":%q},{"name":%q,"sandbox":%q}]}}`,
		podsAddress, p.dir, bpfFS, podHostEnd(0), podInterface, namespace)
	c := exec.CommandContext(ctx, plugin[0], plugin[1:]...)
	var out bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(config), &out, &out
	c.Env = append(os.Environ(), "CNI_COMMAND=ADD", "CNI_CONTAINERID="+container, "CNI_NETNS="+namespace,
		"CNI_IFNAME="+podInterface, "CNI_PATH=/")
	if err := p.fleet.keepers[0].Do(c.Start); err != nil {
		return fmt.Errorf("start %s: %w", plugin[0], err)
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", plugin[0], err, &out)
	}
	a, err := p.dir.Ask(ctx, container, podInterface)
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		return fmt.Errorf("the pod is not served: %w", err)
	}
	p.answeredAt = "the pod's veth pair, XDP " + a.Mode
	return nil
}

const podEchoPort = 7

// startEcho starts a server in a pod that returns what it gets by TCP, and returns its address.
func (p *podMachine) startEcho(pod int) (netip.AddrPort, error) {
	addr := netip.AddrPortFrom(podAddr(pod), podEchoPort)
	var listener int
	err := p.pods[pod].do(func() (err error) {
		if listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return errors.Join(unix.Bind(listener, socketAddress(addr)), unix.Listen(listener, 1))
	})
	if err != nil {
		return addr, fmt.Errorf("echo server on %v: %w", addr, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		serveStream(listener)
	}()
	p.mesh.undo.add(func() {
		_ = unix.Shutdown(listener, unix.SHUT_RDWR) // wakes accept
		<-ended
		unix.Close(listener)
	})
	return addr, nil
}

// serveStream returns the messages of one client until it closes the connection.
func serveStream(listener int) {
	stream, err := eintr.Value(func() (int, error) {
		stream, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		return stream, err
	})
	if err != nil {
		return
	}
	defer unix.Close(stream)
	_ = unix.SetsockoptInt(stream, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	buffer := make([]byte, echoBufferBytes)
	for {
		n, err := eintr.Value(func() (int, error) { return unix.Read(stream, buffer) })
		if err != nil || n == 0 {
			return
		}
		if _, err := eintr.Value(func() (int, error) { return unix.Write(stream, buffer[:n]) }); err != nil {
			return
		}
	}
}

// dialStream connects to a server by TCP from the calling thread's namespace.
func dialStream(addr netip.AddrPort) (int, error) {
	stream, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = errors.Join(unix.SetsockoptInt(stream, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		eintr.Retry(func() error { return unix.Connect(stream, socketAddress(addr)) }))
	if err != nil {
		unix.Close(stream)
		return 0, fmt.Errorf("connect to the other pod: %w", err)
	}
	return stream, nil
}

// roundTrip sends a message and reads it back.
func roundTrip(stream int, message []byte) (time.Duration, error) {
	start := time.Now()
	if _, err := eintr.Value(func() (int, error) { return unix.Write(stream, message) }); err != nil {
		return 0, err
	}
	for got := 0; got < len(message); {
		n, err := eintr.Value(func() (int, error) { return unix.Read(stream, message[got:]) })
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		got += n
	}
	return time.Since(start), nil
}
