package node

import (
	"testing"

	"github.com/spf13/pflag"
)

// TestDefaultCarriesWriters: a writer has one write at a time, so at most one session in each shard.
func TestDefaultCarriesWriters(t *testing.T) {
	const writers, shards = 10_000, 256
	o := DefaultChainOptions(shards)
	if o.ClientSessions < writers*shards {
		t.Errorf("one address may hold %d of %d session entries; %d writers need %d", o.ClientSessions, o.MaxSessions,
			writers, writers*shards)
	}
}

// TestKeepSessions: a node takes over a table of another size than the default, unless it is told a size.
func TestKeepSessions(t *testing.T) {
	flags := nodeFlags{plane: PlaneRequest{Chain: DefaultChainOptions(1)}}
	set := pflag.NewFlagSet("node", pflag.ContinueOnError)
	flags.addSessions(set)
	size := &flags.plane.Chain
	before := *size
	if flags.keepSessions(0); *size != before {
		t.Errorf("nothing is pinned: %+v", size)
	}
	if flags.keepSessions(1000); size.MaxSessions != 1000 || size.ClientSessions != 750 {
		t.Errorf("a table of 1000 entries is pinned: %+v", size)
	}
	if err := set.Parse([]string{"--sessions", "2000"}); err != nil {
		t.Fatal(err)
	}
	if flags.keepSessions(1000); size.MaxSessions != 2000 {
		t.Errorf("--sessions was given: %+v", size)
	}
}
