package xdp

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// rights are those that a plane needs. CAP_SYS_ADMIN stands for the first two.
var rights = []struct {
	name  string
	bit   uint
	admin bool
}{
	{"CAP_BPF", unix.CAP_BPF, true}, {"CAP_PERFMON", unix.CAP_PERFMON, true}, {"CAP_NET_ADMIN", unix.CAP_NET_ADMIN, false},
}

// Permitted returns an error that says so if this thread lacks a right that [Open] needs.
func Permitted() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // for 32 capabilities each
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("reading the capabilities of this process: %w", err)
	}
	has := func(bit uint) bool { return sets[bit/32].Effective&(1<<(bit%32)) != 0 }
	var missing []string
	for _, right := range rights {
		if !has(right.bit) && !(right.admin && has(unix.CAP_SYS_ADMIN)) {
			missing = append(missing, right.name)
		}
	}
	if len(missing) > 0 {
		return errors.New("the XDP plane needs " + strings.Join(missing, ", ") + ": run as root (sudo), or use --plane soft")
	}
	return nil
}
