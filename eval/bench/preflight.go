package bench

import (
	"errors"
	"os"
	"unsafe"
)

// Preflight reports missing privileges or machine features that a benchmark needs.
func Preflight() error {
	one := uint16(1)
	switch {
	case os.Geteuid() != 0:
		return errors.New("a benchmark makes network namespaces and loads programs into the kernel: run it as root (sudo)")
	case *(*byte)(unsafe.Pointer(&one)) != 1:
		return errors.New("the load generator runs on little-endian machines only")
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return errors.New(
			"this kernel has no BTF (/sys/kernel/btf/vmlinux): Linux 5.18 or later with CONFIG_DEBUG_INFO_BTF is needed")
	}
	return nil
}
