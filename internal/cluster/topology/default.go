package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// PathVariable is the environment variable that names the cluster file.
const PathVariable = "NETCRAQ_CLUSTER"

// rootPath is the default of a cluster that root started; other users may read it.
const rootPath = "/run/netcraq/cluster.yaml"

// DefaultPath is where a command that starts a cluster writes its file, and where clients look for it. It depends on the
// user only.
func DefaultPath() string {
	if os.Geteuid() == 0 {
		return rootPath
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "netcraq", "cluster.yaml")
	}
	return filepath.Join(os.TempDir(), "netcraq-"+strconv.Itoa(os.Geteuid()), "cluster.yaml")
}

// Find chooses the cluster file of a client: the path given, else that of [PathVariable], else the default of
// this user, else that of root. It does not open a file that was named.
func Find(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	if path := os.Getenv(PathVariable); path != "" {
		return path, nil
	}
	for _, path := range []string{DefaultPath(), rootPath} {
		if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
	}
	return "", fmt.Errorf("no cluster file at %s: start a cluster with `netcraq up`, or name its file with --cluster or $%s",
		DefaultPath(), PathVariable)
}
