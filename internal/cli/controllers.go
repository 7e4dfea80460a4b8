package cli

import (
	"fmt"
	"net"
	"strconv"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

// etcdPortAbove is the distance from the controller's port to the peer port of its embedded etcd.
const etcdPortAbove = 1

// NewController returns the record of a controller at an address with a port.
func NewController(name, address string) (reconfig.Controller, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return reconfig.Controller{}, err
	}
	n, err := strconv.Atoi(port)
	if err != nil || n+etcdPortAbove > 65535 {
		return reconfig.Controller{}, fmt.Errorf("port %s is too high: the embedded etcd uses the next one", port)
	}
	return reconfig.Controller{Name: name, Address: address, Peer: net.JoinHostPort(host, strconv.Itoa(n+etcdPortAbove))}, nil
}
