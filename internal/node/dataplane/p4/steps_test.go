package p4

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// boasting is a switch whose program says that many sessions got an entry.
type boasting struct{ Switch }

func (boasting) Do(*Request) error { return nil }
func (boasting) Steps() bool       { return true }

func (boasting) Ask(frames [][]byte) ([][]byte, error) {
	answers := make([][]byte, len(frames))
	for i, f := range frames {
		answers[i] = append(make([]byte, PlatformBytes), f...)
		step(answers[i][answerHeader:]).put(offChainVersion, 1<<60)
	}
	return answers, nil
}

// TestTooManySessions: a node does not ask for ever.
func TestTooManySessions(t *testing.T) {
	n := Node{sw: boasting{}, self: netip.MustParseAddrPort("10.77.0.2:4411"), stepper: boasting{},
		made: made{known: make(map[chain.SessionKey]bool)}}
	if _, err := n.learn(); err == nil || !strings.Contains(err.Error(), "is not this node's") {
		t.Error(err)
	}
}
