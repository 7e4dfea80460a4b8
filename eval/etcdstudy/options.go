package etcdstudy

import (
	"fmt"
	"runtime"
	"time"
)

// Sizes of clusters that are studied.
var (
	QuickMembers = []int{1, 3, 5}
	FullMembers  = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, LargestCluster}
)

// LargestCluster is the number of members that everything has to fit the machine with.
const LargestCluster = 11

// forMembers is the part of the machine that the largest cluster gets; the rest is for the clients
// and the kernel.
const forMembers = 0.55

// Share is the part of a CPU, 0 to 1, that each member gets in clusters of every size. It is the
// share of a member of the largest cluster. The study gave each member one core.
func Share() float64 {
	return min(1, float64(runtime.NumCPU())*forMembers/LargestCluster)
}

// Load is the load of clients. The zero value becomes the study's.
type Load struct {
	Clients    int // that have one request under way, each
	KeyBytes   int
	ValueBytes int
	ReadShare  float64 // of transactions; negative: 0
	Seed       uint64  // of each client's sequence of operations

	Duration time.Duration // of a measurement, after all clients have had an answer
}

// The study's load. For values that the study does not state, these are the defaults of etcd's own
// benchmark, which it used.
const (
	clients    = 1000
	conns      = 100
	keyBytes   = 256
	valueBytes = 8
	readShare  = 0.5
)

// withDefaults fills in the study's load.
func (l Load) withDefaults() Load {
	fill := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	fill(&l.Clients, clients)
	fill(&l.KeyBytes, keyBytes)
	fill(&l.ValueBytes, valueBytes)
	if l.ReadShare == 0 {
		l.ReadShare = readShare
	}
	if l.Duration == 0 {
		l.Duration = 5 * time.Second
	}
	return l
}

func (l Load) validate() error {
	if l.Clients < 1 || l.KeyBytes < 8 || l.ValueBytes < 0 || l.ReadShare > 1 || l.Duration < 0 {
		return wrongOption("a load of %d clients, keys of %d bytes and values of %d, %g of it reads: "+
			"want clients, keys of at least 8 bytes and a share of at most 1", l.Clients, l.KeyBytes, l.ValueBytes, l.ReadShare)
	}
	return nil
}

// OptionError is an option that nothing can be measured with.
type OptionError struct{ text string }

func (e *OptionError) Error() string { return e.text }

func wrongOption(format string, args ...any) error { return &OptionError{fmt.Sprintf(format, args...)} }
