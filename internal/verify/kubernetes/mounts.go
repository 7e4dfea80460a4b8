package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Paths that a machine alone sees. They are on a file system in memory.
const (
	privateRun = "/run"
	// inside is the cluster's directory as machines see it.
	inside = privateRun + "/cluster"
	// scratch has the changes of directories that machines share otherwise.
	scratch = privateRun + "/scratch"
)

// shadowed are directories of the real machine that a machine of the cluster sees, and changes for itself only.
var shadowed = []string{"/etc", "/var", "/opt"}

// inMemory are directories that no overlay may be the file system of: containerd makes overlays there.
var inMemory = []string{"/var/lib/containerd", "/var/lib/kubelet"}

// settings are files of the kernel that kubelets write, with what they would write. They are not the machine's own.
var settings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// mountAll gives this process's mount namespace the machine's own view. dir is the cluster's directory.
func mountAll(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	cluster, err := os.Open(dir) // its path goes with /run
	if err != nil {
		return err
	}
	defer cluster.Close()
	for _, m := range []struct{ kind, at string }{{"proc", "/proc"}, {"tmpfs", privateRun}} {
		if err := mount(m.kind, m.at); err != nil {
			return err
		}
	}
	if err := os.Mkdir(inside, 0o700); err != nil {
		return err
	}
	from := fmt.Sprintf("/proc/self/fd/%d", cluster.Fd())
	if err := unix.Mount(from, inside, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", dir, err)
	}
	for _, at := range shadowed {
		if err := shadow(at); err != nil {
			return err
		}
	}
	for _, at := range inMemory {
		if err := errors.Join(os.MkdirAll(at, 0o700), mount("tmpfs", at)); err != nil {
			return err
		}
	}
	if err := mount("bpf", "/sys/fs/bpf"); err != nil { // pins of the machine end with it
		return err
	}
	return hideSettings()
}

func mount(kind, at string) error {
	if err := unix.Mount(kind, at, kind, 0, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", kind, at, err)
	}
	return nil
}

// shadow mounts an overlay over a directory, so that its changes are in memory.
func shadow(at string) error {
	if _, err := os.Stat(at); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	upper, work := filepath.Join(scratch, at, "upper"), filepath.Join(scratch, at, "work")
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", at, upper, work)
	if err := unix.Mount("overlay", at, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount an overlay at %s: %w", at, err)
	}
	return nil
}

// hideSettings puts files in front of settings of the kernel that kubelets would change for the whole machine.
func hideSettings() error {
	for name, value := range settings {
		file := filepath.Join(scratch, "sys", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		err := unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, "")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("hide /proc/sys/%s: %w", name, err)
		}
	}
	return nil
}
