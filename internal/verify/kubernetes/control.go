package kubernetes

import (
	"context"
	"net"
	"net/http"

	"github.com/netcraq/netcraq/internal/platform/thread"
)

// URLs of programs of the control machine, which listen on its loopback device only.
const (
	EtcdURL    = "http://" + etcdAddr
	GatewayURL = "http://" + gatewayAddr
)

// ControlClient returns a client for these URLs.
func ControlClient(name string) (*http.Client, error) {
	s, err := readState(name)
	if err != nil {
		return nil, err
	}
	dial := thread.DialIn(namespaceOf(s.Machines[Control]))
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) },
	}}, nil
}

// ControlProcesses are the processes of the control machine's programs. One that does not run is 0.
type ControlProcesses struct{ Etcd, Gateway, API int }

// ProcessesOf returns the processes of a cluster's control machine.
func ProcessesOf(name string) (ControlProcesses, error) {
	s, err := readState(name)
	if err != nil {
		return ControlProcesses{}, err
	}
	programs := childrenOf(s.Machines[Control].PID)
	return ControlProcesses{programs[etcdProgram], programs[gatewayProgram], programs[apiProgram]}, nil
}
