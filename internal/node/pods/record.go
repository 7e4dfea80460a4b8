package pods

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/netcraq/netcraq/internal/platform/bpflink"
)

const (
	// DefaultDir is where records are kept. The directory is empty after a start of the machine, as its interfaces are.
	DefaultDir = "/run/netcraq/pods"
	// PinRoot is the parent of the directories in which nodes pin their data planes by default.
	PinRoot = "/sys/fs/bpf/netcraq"

	recordSuffix = ".json"
	socketName   = "agent.sock"
)

// Record says that a pod's interface is to be served.
type Record struct {
	Network   string     `json:"network"`   // of CNI
	Container string     `json:"container"` // of CNI
	Interface string     `json:"interface"` // the pod's end of the veth pair, by its name in the pod
	Pod       End        `json:"pod"`       // the same, as the kernel knows it
	Host      string     `json:"host"`      // the host's end
	HostIndex int        `json:"hostIndex"`
	Address   netip.Addr `json:"address"` // by which the pod reaches the chain
	Native    bool       `json:"native"`  // the pod's end takes frames that a driver sends
}

// End identifies an interface of a pod until the machine starts again, whatever its name and the path of its network
// namespace come to mean. It is zero in records of plugins that did not write it.
type End struct {
	Namespace uint64 `json:"namespace"` // the cookie of the network namespace: SO_NETNS_COOKIE
	Index     int    `json:"index"`
}

// Dir is a directory of records.
type Dir string

// maxNamed is the length of the longest container identifier that is part of a file name, which has at most 255 bytes.
const maxNamed = 200

// path is unambiguous: CNI allows no comma in the identifier of a container, and it begins with a letter or digit.
func (d Dir) path(container, ifname string) string {
	if len(container) > maxNamed {
		container = fmt.Sprintf("+%x", sha256.Sum256([]byte(container)))
	}
	return filepath.Join(string(d), container+","+ifname+recordSuffix)
}

func (d Dir) socket() string { return filepath.Join(string(d), socketName) }

// Put writes a record, in the place of an earlier one of the same interface.
func (d Dir) Put(r Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(string(d), ".record-*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), d.path(r.Container, r.Interface))
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// Get returns the record of an interface; os.ErrNotExist if there is none.
func (d Dir) Get(container, ifname string) (Record, error) { return read(d.path(container, ifname)) }

func read(path string) (Record, error) {
	var r Record
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s is no record of a pod: remove it: %w", path, err)
	}
	return r, nil
}

// Delete removes a record. That there is none is no error.
func (d Dir) Delete(container, ifname string) error {
	if err := os.Remove(d.path(container, ifname)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// List returns all records. With an error, which names those that cannot be read, it returns the others.
func (d Dir) List() ([]Record, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var records []Record
	var errs []error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), recordSuffix) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		r, err := read(filepath.Join(string(d), e.Name()))
		switch {
		case err == nil:
			records = append(records, r)
		case !errors.Is(err, os.ErrNotExist): // deleted meanwhile
			errs = append(errs, err)
		}
	}
	return records, errors.Join(errs...)
}

// The file names of pinned attachments begin with these. The name of the interface follows.
const (
	PortPin = "pod-port-"
	GrowPin = "pod-grow-"
)

// Detach ends the attachments of a pod's interface that are pinned below a directory of pin directories, for lack of an
// agent that does it.
func Detach(root, host string) error {
	var errs []error
	for _, prefix := range []string{PortPin, GrowPin} {
		found, err := filepath.Glob(filepath.Join(root, "*", prefix+host))
		errs = append(errs, err)
		for _, path := range found {
			errs = append(errs, bpflink.Detach(path))
		}
	}
	return errors.Join(errs...)
}
