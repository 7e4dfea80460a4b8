package xdp

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// explainLoad adds advice about the usual reasons for a refusal of the kernel.
func explainLoad(err error, pin string) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.Is(err, ebpf.ErrMapIncompatible):
		return staleError(pin)
	case errors.As(err, &verifier) && len(verifier.Log) > 0: // with EACCES or EPERM, like missing privileges, but these leave no log
		return refusal(err, verifier)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the kernel refuses BPF programs: run as root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON), or use --plane soft: %w", err)
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("Linux %s lacks a feature that the XDP plane needs (%d.%d or newer is wanted); use --plane soft: %w",
			kernelRelease(), oldestMajor, oldestMinor, err)
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.E2BIG):
		return fmt.Errorf("the tables are larger than the kernel or its memory allows: lower --objects, --sessions or --cell-bytes: %w", err)
	}
	return err
}

// explainNearby does the same for reads of a node's tables by another process, which can do without them. The error is one line.
func explainNearby(err error, pin string) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.Is(err, ebpf.ErrMapIncompatible):
		return fmt.Errorf("%s: %w: this program expects other tables", pin, ErrStalePins)
	case errors.As(err, &verifier) && len(verifier.Log) > 0:
		return fmt.Errorf("Linux %s refuses the program that reads them; please report this: %w", kernelRelease(), err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the kernel refuses BPF programs: run as root (CAP_BPF, CAP_PERFMON): %w", err)
	}
	return err
}

// verdictLines is how much of the verifier's log is shown: the last instructions with its remarks.
const verdictLines = 12

// programName finds in an error of the library which program was loaded.
var programName = regexp.MustCompile(`program (\w+):`)

// refusal explains that the verifier does not take a program.
func refusal(err error, verifier *ebpf.VerifierError) error {
	program := "program"
	if found := programName.FindStringSubmatch(err.Error()); found != nil {
		program += " " + found[1]
	}
	log := verifier.Log
	return fmt.Errorf("the verifier of Linux %s refuses the %s (%w); use --plane soft, and report this with its last lines:\n  %s",
		kernelRelease(), program, verifier.Cause, strings.Join(log[max(0, len(log)-verdictLines):], "\n  "))
}

// kernelRelease returns the output of uname -r.
func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "(unknown)"
	}
	return unix.ByteSliceToString(name.Release[:])
}
