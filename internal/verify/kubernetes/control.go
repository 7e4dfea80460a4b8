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

// Processes are those of a cluster's stores and API server. A program that does not run is 0.
type Processes struct {
	Etcd         []int // members, or the gateways of a keyspace in their place
	Gateway, API int
	Chain        []int // nodes and controllers of the manifests
}

// ProcessesOf returns the processes of a cluster.
func ProcessesOf(name string) (Processes, error) {
	s, err := readState(name)
	if err != nil {
		return Processes{}, err
	}
	programs := childrenOf(s.Machines[Control].PID)
	p := Processes{Gateway: programs[gatewayProgram], API: programs[apiProgram], Chain: s.chainProcesses()}
	for _, m := range s.Options.etcdMembers() {
		program := m.program()
		if s.Keyspace > 0 {
			program = keyspaceProgram + " " + keyspaceName(m)
		}
		p.Etcd = append(p.Etcd, programs[program])
	}
	return p, nil
}

// podProgram is the product's program in pods.
const podProgram = "/netcraq"

// chainProcesses are those of nodes and controllers in pods of the workers.
func (s *state) chainProcesses() (found []int) {
	machines := make(map[int]bool)
	for _, h := range workerHosts() {
		machines[s.Machines[h.name].PID] = true
	}
	all := parents()
	for pid := range all {
		above := all[pid]
		for above > 0 && !machines[above] {
			above = all[above]
		}
		argv := commandOf(pid)
		if above > 0 && len(argv) > 1 && string(argv[0]) == podProgram &&
			(string(argv[1]) == "node" || string(argv[1]) == "controller") {
			found = append(found, pid)
		}
	}
	return found
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
