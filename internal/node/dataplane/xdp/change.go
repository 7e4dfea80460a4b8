package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Change changes the programs of an [Offline] node, or their constants, before they are loaded: to measure whether
// tests notice.
type Change func(spec *ebpf.CollectionSpec) error

// ErrRefused says that the kernel's verifier refuses the changed programs.
var ErrRefused = errors.New("the kernel refuses the changed programs")

// SetChange lets f change the programs that this node runs; nil changes nothing. It unloads them: the next Reset loads
// them anew.
func (m *Offline) SetChange(f Change) error {
	m.change = f
	return m.do(func() error {
		m.unload()
		return nil
	})
}

// Loaded returns the programs that the node runs, by name.
func (m *Offline) Loaded() map[string]*ebpf.Program {
	if m.tables == nil || m.nearby == nil {
		return nil
	}
	return map[string]*ebpf.Program{
		"nq_ingress": m.objects.Ingress, "nq_bundle": m.objects.Bundle, "nq_egress_test": m.objects.EgressTest,
		"nq_set_heart": m.objects.SetHeart, "nq_nearby": m.nearby.program,
	}
}

// apply changes programs.
func (f Change) apply(spec *ebpf.CollectionSpec) error {
	if f == nil {
		return nil
	}
	return f(spec)
}

// options returns how programs are loaded. A log of the verifier would take longer than the rest.
func (f Change) options() ebpf.CollectionOptions {
	return ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{LogDisabled: f != nil}}
}

// explain marks the error of a load if the change may be its cause.
func (f Change) explain(err error) error {
	if f == nil {
		return err
	}
	for _, refusal := range []error{unix.EACCES, unix.EINVAL, unix.EPERM, unix.E2BIG} {
		if errors.Is(err, refusal) {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	return err
}
