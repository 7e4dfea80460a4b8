package client

import "testing"

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
