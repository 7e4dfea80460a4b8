package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/netcraq/netcraq/internal/verify/lab"
)

// runDir has a directory for each cluster: its state, credentials, configurations and logs.
const runDir = "/run/netcraq/kubernetes"

func dirOf(name string) string { return filepath.Join(runDir, name) }

// Kubeconfig returns the path of the cluster's configuration for kubectl.
func Kubeconfig(name string) string { return filepath.Join(dirOf(name), "kubeconfig") }

// LogOf returns the path of a log of one of a machine's programs.
func LogOf(name, machine, program string) string {
	return filepath.Join(dirOf(name), machine, program+".log")
}

// state is the content of a cluster's state file. A machine does nothing before it is listed there.
type state struct {
	Options  Options                `json:"options"`
	Machines map[string]lab.Process `json:"machines"`
	Up       bool                   `json:"up"`

	Joined       bool `json:"joined"`        // the gateway reads from the chain of the manifests' nodes
	Direct       bool `json:"direct"`        // the API server uses etcd, not the gateway
	ChainMembers bool `json:"chain_members"` // etcd's members read through that chain; then the gateway does not
	NoWatchCache bool `json:"no_watch_cache"`
	MemoryLeases bool `json:"memory_leases"` // leases are in the chain's memory, not in the etcd

	// Keyspace is the number of the keyspace on disks that has the objects; 0: etcd has them. Keyspaces were made so
	// far.
	Keyspace  int `json:"keyspace,omitempty"`
	Keyspaces int `json:"keyspaces,omitempty"`
	// APIAway: no API server is to run. Moving: neither etcd nor gateways of a keyspace are, because objects are moved.
	APIAway bool `json:"api_away,omitempty"`
	Moving  bool `json:"moving,omitempty"`

	started map[string]time.Time // machines that this process has started
}

const stateName = "state.json"

func stateFile(name string) string { return filepath.Join(dirOf(name), stateName) }

func (s *state) write() error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	path := stateFile(s.Options.Name)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// ErrNotUp reports that no cluster has the name.
var ErrNotUp = errors.New("is not up: bring it up with `netcraq lab kubernetes up`")

func readState(name string) (*state, error) {
	s, err := readStateAt(stateFile(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cluster %q %w", name, ErrNotUp)
	}
	return s, err
}

func readStateAt(path string) (*state, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := new(state)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w: remove the cluster with `netcraq lab kubernetes down`", path, err)
	}
	return s, nil
}
