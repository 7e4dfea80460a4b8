package etcd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// BinaryVariable is the environment variable that names the etcd server.
const BinaryVariable = "NETCRAQ_ETCD"

// ErrMissing reports that no etcd server was found.
var ErrMissing = errors.New(
	"no etcd server: build it with `scripts/peers.sh etcd`, put one on PATH, or name it with $" + BinaryVariable)

// Builds of scripts/peers.sh, below the project's root.
const (
	built      = ".tools/etcd"
	builtLease = ".tools/etcd-lease"
)

// Find returns the path of the server: $NETCRAQ_ETCD, else the build below the project of this
// program or of the working directory, else the one on PATH.
func Find() (string, error) {
	if path := os.Getenv(BinaryVariable); path != "" {
		return path, nil
	}
	if path := find(built); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath("etcd"); err == nil {
		return path, nil
	}
	return "", ErrMissing
}

// FindLease returns the path of the server whose leader answers reads while it has Raft's lease.
func FindLease() (string, error) {
	if path := find(builtLease); path != "" {
		return path, nil
	}
	return "", errors.New("there is no etcd that reads by Raft's leases: build it with `scripts/peers.sh etcd-lease`")
}

// find returns a program's path below the project of this program or of the working directory, or "".
func find(program string) string {
	var dirs []string
	if self, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(self))
	}
	if here, err := os.Getwd(); err == nil {
		dirs = append(dirs, here)
	}
	for _, dir := range dirs {
		for ; ; dir = filepath.Dir(dir) {
			path := filepath.Join(dir, program)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return ""
}
