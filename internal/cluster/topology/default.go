package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/netcraq/netcraq/internal/platform/trust"
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
// this user, else that of root. roots reports the last case. It does not open a file that was named.
func Find(given string) (path string, roots bool, err error) {
	if given != "" {
		return given, false, nil
	}
	if path := os.Getenv(PathVariable); path != "" {
		return path, false, nil
	}
	return findDefault(DefaultPath(), rootPath)
}

// findDefault chooses between the default of a user and that of root.
func findDefault(own, root string) (path string, roots bool, err error) {
	for _, path := range []string{own, root} {
		if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return path, path != own, believe(path)
		}
	}
	return "", false, fmt.Errorf("no cluster file at %s: start a chain with `netcraq up`, or name a cluster: its file "+
		"with --cluster or $%s, or its controllers with --controllers", own, PathVariable)
}

// believe checks that no other user can have written a file that nobody has named, or the directory it is in: anyone may make
// the directory of the default in /tmp.
func believe(path string) error {
	for _, each := range []string{filepath.Dir(path), path} {
		if err := trust.CheckOwner(each); err != nil && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("the cluster file that commands use by default is not to be trusted: %w; name the file to use with "+
				"--cluster or $%s", err, PathVariable)
		}
	}
	return nil
}
