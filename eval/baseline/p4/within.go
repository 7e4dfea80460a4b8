package p4

import (
	"math/rand/v2"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/netchain"
)

// Within restricts random nodes of NetChain to those that the program supports: values of at most 64 bytes,
// and a number of virtual groups that is a power of two.
func Within(draw baseline.Draw[netchain.State]) baseline.Draw[netchain.State] {
	return baseline.Draw[netchain.State]{
		State: func(rng *rand.Rand) netchain.State {
			for {
				s := draw.State(rng)
				if s.ValueBytes <= chainValueBytes && s.Groups&(s.Groups-1) == 0 {
					return s
				}
			}
		},
		Packet: draw.Packet,
	}
}
