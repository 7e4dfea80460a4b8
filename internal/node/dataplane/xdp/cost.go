package xdp

import (
	"io"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// CountTime has the kernel measure how long programs run, until it is closed. It costs each run tens of nanoseconds.
func CountTime() (io.Closer, error) { return ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME)) }

// Spent returns how long the node's programs have run while [CountTime] was on.
func (m *Offline) Spent() (time.Duration, error) {
	var all time.Duration
	for _, p := range []*ebpf.Program{m.objects.Ingress, m.objects.EgressTest} {
		s, err := p.Stats()
		if err != nil {
			return 0, err
		}
		all += s.Runtime
	}
	return all, nil
}
