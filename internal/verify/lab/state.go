package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

const (
	runDir  = "/run/netcraq"
	labsDir = runDir + "/labs"
	// pinRoot holds the pins of agents, by lab and node.
	pinRoot = "/sys/fs/bpf/netcraq/labs"
)

func dir(name string) string           { return filepath.Join(labsDir, name) }
func stateFile(name string) string     { return filepath.Join(dir(name), "lab.json") }
func clusterFile(name string) string   { return filepath.Join(dir(name), "cluster.yaml") }
func logFile(name, host string) string { return filepath.Join(dir(name), host+".log") }
func pinDir(name, host string) string  { return filepath.Join(pinRoot, name, host) }

// dataRoot holds the controllers' data, by lab and host. It is in memory: real controllers have a
// disk each, while one disk shared by all of them and everything else can take a second per write.
const dataRoot = "/dev/shm/netcraq-labs"

func dataDir(name, host string) string { return filepath.Join(dataRoot, name, host) }

// state is the content of a lab's state file. It is written before the parts that it lists are
// made.
type state struct {
	Options  Options             `json:"options"`
	Octet    byte                `json:"octet"` // the lab's addresses are 10.<octet>.0.0/16
	Up       bool                `json:"up"`    // false while the lab is being built or removed
	Maker    Process             `json:"maker"`
	Owned    bool                `json:"owned"` // the lab ends with its maker
	Commands map[string][]string `json:"commands,omitempty"`
	Agents   map[string]Process  `json:"agents,omitempty"`
	Down     []Link              `json:"down,omitempty"` // links that are down

	Partitions []Partition `json:"partitions,omitempty"`
}

func (s *state) write() error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	name := s.Options.Name
	if err := os.MkdirAll(dir(name), 0o755); err != nil {
		return err
	}
	scratch := stateFile(name) + ".new"
	if err := os.WriteFile(scratch, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(scratch, stateFile(name))
}

func readState(name string) (*state, error) {
	text, err := os.ReadFile(stateFile(name))
	if err != nil {
		return nil, err
	}
	s := new(state)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", stateFile(name), err)
	}
	return s, nil
}

// names returns the labs that have a directory.
func Names() []string {
	entries, _ := os.ReadDir(labsDir) // absent: no labs
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

// lock makes this process the only one that changes labs. The lock ends with the process.
func lock(ctx context.Context) (unlock func(), err error) {
	for {
		if err := os.MkdirAll(runDir, 0o755); err != nil {
			return nil, err
		}
		fd, err := eintr.Value(func() (int, error) {
			return unix.Open(runDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		})
		if err != nil {
			return nil, err
		}
		locked := make(chan error, 1)
		go func() { locked <- eintr.Retry(func() error { return unix.Flock(fd, unix.LOCK_EX) }) }()
		select {
		case err = <-locked:
		case <-ctx.Done():
			go func() { _ = errors.Join(<-locked, unix.Close(fd)) }()
			return nil, ctx.Err()
		}
		if err == nil && isAt(fd, runDir) {
			return func() { os.Remove(runDir); unix.Close(fd) }, nil // Remove fails unless the directory is empty
		}
		unix.Close(fd)
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", runDir, err)
		}
	}
}

// isAt reports whether fd still is the directory at path: the previous holder of the lock may have
// removed it.
func isAt(fd int, path string) bool {
	var held, named unix.Stat_t
	return unix.Fstat(fd, &held) == nil && unix.Stat(path, &named) == nil && held.Ino == named.Ino && held.Dev == named.Dev
}
