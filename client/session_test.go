package client

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestSessionsBelongToShards: writers take turns in the shards, and none leaves entries in all of them. A node then has
// as many entries as there were concurrent writes in each shard.
func TestSessionsBelongToShards(t *testing.T) {
	const writers, shards = 1000, 256
	var s sessions
	entries := make(map[session]bool)
	for round := range shards {
		var taken []*session
		for w := range writers {
			one := s.take(uint16((w+round)%shards), 0)
			if one.shard != uint16((w+round)%shards) {
				t.Fatalf("a session of shard %d for shard %d", one.shard, (w+round)%shards)
			}
			taken = append(taken, one)
			entries[session{id: one.id, shard: one.shard}] = true
		}
		for _, one := range taken {
			s.release(one)
		}
	}
	if most := writers + shards; len(entries) > most {
		t.Errorf("%d writers left %d entries, want at most %d", writers, len(entries), most)
	}
}

// checkInvariants returns an error if two calls may get one session.
func (s *sessions) checkInvariants(taken []*session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[*session]bool)
	for _, one := range taken {
		if seen[one] {
			return fmt.Errorf("two calls have session %x", one.id)
		}
		seen[one] = true
	}
	for shard, idle := range s.idle {
		for _, one := range idle {
			switch {
			case seen[one]:
				return fmt.Errorf("session %x is idle, and idle again or a call's", one.id)
			case one.shard != shard || one.age != s.age:
				return fmt.Errorf("session %+v is idle in shard %d at age %d", *one, shard, s.age)
			case one.seq == 0:
				return fmt.Errorf("session %x is idle and was never used", one.id)
			}
			seen[one] = true
		}
	}
	return nil
}

// TestSessionsHaveOneCall takes and returns sessions at random, while the clocks move apart now and then.
func TestSessionsHaveOneCall(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var s sessions
	var taken []*session
	var apart time.Duration
	numbers := make(map[uint64]uint64) // by session: the last seq
	for range 10_000 {
		switch n := rng.IntN(100); {
		case n < 48:
			one := s.take(uint16(rng.IntN(3)), apart)
			if one.seq != numbers[one.id]+1 {
				t.Fatalf("session %x has number %d after %d", one.id, one.seq, numbers[one.id])
			}
			numbers[one.id] = one.seq
			taken = append(taken, one)
		case n < 96 && len(taken) > 0:
			i := rng.IntN(len(taken))
			s.release(taken[i])
			taken = slices.Delete(taken, i, i+1)
		case n == 96 && len(taken) > 0: // of an outcome that is not known
			taken = taken[1:]
		case n == 97:
			apart += 2 * maxApart
		case n == 98:
			apart += maxApart / 2
		}
		if err := s.checkInvariants(taken); err != nil {
			t.Fatal(err)
		}
	}
}
