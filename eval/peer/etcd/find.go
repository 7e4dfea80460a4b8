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

// built is the directory in which scripts/peers.sh builds the server, below the project's root.
const built = ".tools/etcd"

// Find returns the path of the server: $NETCRAQ_ETCD, else the build below the project of this
// program or of the working directory, else the one on PATH.
func Find() (string, error) {
	if path := os.Getenv(BinaryVariable); path != "" {
		return path, nil
	}
	var dirs []string
	if self, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(self))
	}
	if here, err := os.Getwd(); err == nil {
		dirs = append(dirs, here)
	}
	for _, dir := range dirs {
		for ; ; dir = filepath.Dir(dir) {
			path := filepath.Join(dir, built)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	if path, err := exec.LookPath("etcd"); err == nil {
		return path, nil
	}
	return "", ErrMissing
}
