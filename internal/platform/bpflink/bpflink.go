// Package bpflink ends attachments of BPF programs.
package bpflink

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Detach ends a pinned attachment at once, even if other processes hold it open, and removes the pin. A pin that is not
// there, or whose interface is gone, is no error.
func Detach(pin string) error {
	l, err := link.LoadPinnedLink(pin, nil)
	if err == nil {
		err = errors.Join(l.Detach(), l.Unpin(), l.Close())
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOLINK) {
		return fmt.Errorf("%s: %w", pin, err)
	}
	return nil
}
