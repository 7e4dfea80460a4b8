package cni

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Name is the plugin's name in network configurations, and of its file.
const Name = "netcraq-cni"

// Install copies the running program into a directory of plugins. A runtime that starts the plugin meanwhile finds the
// old file or the new one.
func Install(dir string) error {
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer own.Close()
	file, err := os.CreateTemp(dir, "."+Name+"-*")
	if err != nil {
		return fmt.Errorf("installing the plugin: %w", err)
	}
	_, err = io.Copy(file, own)
	const executable = 0o755
	if err = errors.Join(err, file.Chmod(executable), file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(dir, Name))
	}
	if err != nil {
		os.Remove(file.Name())
		return fmt.Errorf("installing the plugin: %w", err)
	}
	return nil
}
