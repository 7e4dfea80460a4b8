package kubernetes

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/netcraq/netcraq/internal/platform/thread"
)

// GatewayURL is that of the gateway, which listens on the control machine's loopback device only.
const GatewayURL = "http://" + gatewayAddr

// EtcdURLs are those of etcd's members, which listen on the control machine's loopback device only.
func (o *Options) EtcdURLs() (all []string) {
	for _, m := range o.etcdMembers() {
		all = append(all, "http://"+m.client)
	}
	return all
}

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
type ControlProcesses struct {
	Etcd         []int // of each member
	Gateway, API int
}

// ProcessesOf returns the processes of a cluster's control machine.
func ProcessesOf(name string) (ControlProcesses, error) {
	s, err := readState(name)
	if err != nil {
		return ControlProcesses{}, err
	}
	programs := childrenOf(s.Machines[Control].PID)
	p := ControlProcesses{Gateway: programs[gatewayProgram], API: programs[apiProgram]}
	for _, m := range s.Options.etcdMembers() {
		p.Etcd = append(p.Etcd, programs[m.program()])
	}
	return p, nil
}

// readPage reads a page of a server. Another status than 200 is an error.
func readPage(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	return io.ReadAll(answer.Body)
}
