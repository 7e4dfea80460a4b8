package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Status is the current state of a cluster.
type Status struct {
	Name       string `json:"name"`
	Kubeconfig string `json:"kubeconfig"`
	Directory  string `json:"directory"` // logs, by machine and program
	API        string `json:"api"`       // "ok", or an error
	Serving
	MemoryLeases bool      `json:"memory_leases"` // leases are in the chain's memory
	Machines     []Machine `json:"machines"`
}

// Machine is a machine of a cluster.
type Machine struct {
	Name     string         `json:"name"`
	Address  string         `json:"address"`
	PID      int            `json:"pid"` // of its first process; 0: it has ended
	Programs map[string]int `json:"programs,omitempty"`
	Ready    bool           `json:"ready"` // the node, by the API server
	Version  string         `json:"version,omitempty"`
	Runtime  string         `json:"runtime,omitempty"`
	Pods     int            `json:"pods"`
	Running  int            `json:"pods_ready"`
}

// answerLimit bounds the questions of a status to the API server.
const answerLimit = 5 * time.Second

// StatusOf reads the status of a cluster.
func StatusOf(ctx context.Context, name string) (*Status, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	st, err := readState(name)
	if err != nil {
		return nil, err
	}
	s := &Status{Name: name, Kubeconfig: Kubeconfig(name), Directory: dirOf(name), API: "ok", Serving: st.serving(),
		MemoryLeases: st.MemoryLeases}
	for _, h := range hosts() {
		m := Machine{Name: h.name, Address: h.addr}
		if p := st.Machines[h.name]; p.Alive() {
			m.PID, m.Programs = p.PID, childrenOf(p.PID)
		}
		s.Machines = append(s.Machines, m)
	}
	if err := s.ask(ctx); err != nil {
		s.API = err.Error()
	}
	return s, nil
}

// ask adds what the API server knows.
func (s *Status) ask(ctx context.Context) error {
	a, err := NewAPI(s.Name)
	if err != nil {
		return err
	}
	defer a.Close()
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var nodes nodeList
	if err := a.Get(ctx, "/api/v1/nodes", &nodes); err != nil {
		return err
	}
	var pods podList
	if err := a.Get(ctx, "/api/v1/pods", &pods); err != nil {
		return err
	}
	for i := range s.Machines {
		m := &s.Machines[i]
		for _, n := range nodes.Items {
			if n.Metadata.Name == m.Name {
				_, m.Ready = ready(n.Status.Conditions)
				m.Version, m.Runtime = n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.ContainerRuntimeVersion
			}
		}
		for _, p := range pods.Items {
			if p.Spec.NodeName == m.Name {
				m.Pods++
				if _, ok := ready(p.Status.Conditions); ok {
					m.Running++
				}
			}
		}
	}
	return nil
}

// childrenOf returns the children of a process, by the names of their programs.
func childrenOf(parent int) map[string]int {
	found := make(map[string]int)
	for pid, above := range parents() {
		if above != parent {
			continue
		}
		if argv := commandOf(pid); len(argv) > 1 {
			found[programName(argv)] = pid
		}
	}
	return found
}

// parents returns the parent of each process.
func parents() map[int]int {
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return nil
	}
	found := make(map[int]int)
	for _, file := range files {
		status, gone := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(status), "\nPPid:\t")
		line, _, _ := strings.Cut(rest, "\n")
		pid, bad := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		above, none := strconv.Atoi(line)
		if gone == nil && bad == nil && none == nil {
			found[pid] = above
		}
	}
	return found
}

// commandOf returns the command line of a process; nil: it has ended.
func commandOf(pid int) [][]byte {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	return bytes.Split(line, []byte{0})
}

// programName tells the product's commands apart: memory gateways by their addresses, etcd's members and gateways of a
// keyspace on disks by their names.
func programName(argv [][]byte) string {
	name := filepath.Base(string(argv[0]))
	if name == "netcraq" {
		name += " " + string(argv[1])
	}
	for program, flag := range map[string]string{etcdProgram: memberNameFlag, keyspaceProgram: keyspaceNameFlag} {
		if name == program && len(argv) > 2 && strings.HasPrefix(string(argv[2]), flag) {
			return name + " " + strings.TrimPrefix(string(argv[2]), flag)
		}
	}
	line := string(bytes.Join(argv, []byte(" ")))
	for _, addr := range memoryAddrs {
		if name == gatewayProgram && strings.Contains(line, " --memory --listen "+addr+" ") {
			return memoryProgram + " " + addr
		}
	}
	return name
}

// lastLine returns the last line of a log.
func lastLine(path string) string { return lastLines(path, 1) }

func lastLines(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// shownLines are enough for the reason why a program ended.
const shownLines = 15

// showLogs shows the ends of all logs, of a cluster that is about to be removed because it could not be brought up.
func (s *state) showLogs() {
	logs, err := filepath.Glob(LogOf(s.Options.Name, "*", "*"))
	if err != nil {
		return
	}
	for _, log := range logs {
		s.Options.Progress(fmt.Sprintf("the end of %s:\n%s", log, lastLines(log, shownLines)))
	}
}
