package kubernetes

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
)

// The addresses are those of RFC 5737, which no network uses, and those of deploy/manifests: the manifests are applied
// as they are.
const (
	machineNet  = "192.0.2.0/24"
	serviceNet  = "198.51.100.0/24"
	controlAddr = "192.0.2.10"
	rootAddr    = "192.0.2.254"
	apiPort     = 6443
	gatewayAddr = "127.0.0.1:23790"
)

// memoryAddrs are those of the gateways that keep leases in the chain's memory. They reach each other there.
var memoryAddrs = [2]string{controlAddr + ":23800", controlAddr + ":23801"}

// Workers is the number of machines with a kubelet.
const Workers = 4

// Control is the name of the machine with the control plane.
const Control = "control"

// host is a machine of the cluster.
type host struct {
	name   string
	number int // of a worker, from 1 on; 0: control
	addr   string
	pods   string // network of its pods; empty for control
}

// workerHosts returns the machines with kubelets.
func workerHosts() []host {
	var hosts []host
	for n := 1; n <= Workers; n++ {
		hosts = append(hosts, host{name: fmt.Sprintf("machine-%d", n), number: n, addr: fmt.Sprintf("192.0.2.%d", n),
			pods: fmt.Sprintf("203.0.113.%d/26", 64*(n-1))})
	}
	return hosts
}

func hosts() []host { return append([]host{{name: Control, addr: controlAddr}}, workerHosts()...) }

func hostNamed(name string) (host, error) {
	all := hosts()
	i := slices.IndexFunc(all, func(h host) bool { return h.name == name })
	if i < 0 {
		return host{}, fmt.Errorf("the cluster has no machine %q", name)
	}
	return all[i], nil
}

// podGateway returns the address of a worker in the network of its pods.
func (h host) podGateway() string { return netip.MustParsePrefix(h.pods).Addr().Next().String() }

// validName restricts names, which become parts of names of devices and control groups.
var validName = regexp.MustCompile(`^[a-z][a-z0-9]{0,9}$`)

func checkName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("name %q: a lower-case letter, then up to nine lower-case letters or digits", name)
	}
	return nil
}

// rootDevice is the machine's own end of the link into the cluster.
func rootDevice(name string) string { return "nqk-" + name }

// groupOf is the control group of a worker's pods, below every hierarchy's root.
func groupOf(name, host string) string { return "netcraq-" + name + "-" + host }
