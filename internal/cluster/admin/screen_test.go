package admin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/platform/build"
)

// crowd makes a snapshot of a cluster with troubles.
func crowd(nodes int) *Snapshot {
	s := &Snapshot{Cluster: "0123456789abcdef", Leader: "192.0.2.1:4413", Term: 1234, Change: 56789, Replicas: 3,
		Shards: ShardCounts{Total: 65536, FullyReplicated: 65000, UnderReplicated: 500, Copying: 30, Moves: 470, Changing: 3, Down: 3},
		Controllers: []Controller{{"192.0.2.1:4413", true, true, 56789, "v0.2.0"}, {"192.0.2.2:4413", false, true, 56780, ""},
			{"192.0.2.3:4413", false, false, 0, ""}},
		Notes: []string{"3 shards cannot be reached: no node with a complete copy is there"}}
	for i := range nodes {
		n := Node{Name: fmt.Sprintf("node-%d", i), Standing: "up", Heads: 65, Shards: 197, Reads: 1_234_567, Writes: 45_678,
			Objects: 1_000_000, MaxObjects: 4_000_000, SilentMS: 7, Labels: map[string]string{"zone": "a", "rack": "r17"}}
		if i == nodes-1 {
			n.Standing, n.SilentMS, n.Trouble = "suspected", 65_000, "it is silent, or has not left its chains yet"
		}
		s.Nodes = append(s.Nodes, n)
	}
	for i := range 16 {
		s.Hot = append(s.Hot, HotShard{Shard: uint32(i), Members: []string{"node-1", "node-2", "node-3", "node-4"},
			Reads: uint64(100_000 >> i), Extra: 1})
	}
	return s
}

func TestScreensFitAndShowTroubleFirst(t *testing.T) {
	for _, width := range []int{0, 40, 80, 120, 200} {
		for _, height := range []int{0, 10, 24, 50} {
			for _, nodes := range []int{0, 1, 5, 40, 1000} {
				for _, colour := range []bool{false, true} {
					snap, progress := crowd(nodes), new(Progress)
					progress.See(time.Unix(1, 0), snap)
					text := Screen{width, height, colour}.Draw(time.Unix(2, 0), snap, progress)
					lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
					if height > 0 && len(lines) >= height {
						t.Fatalf("%d lines on a screen of %d:\n%s", len(lines), height, text)
					}
					for _, line := range lines {
						if width > 0 && visible(line) > width {
							t.Fatalf("%d columns on a screen of %d: %q", visible(line), width, line)
						}
					}
					if colour != strings.Contains(text, "\x1b[") {
						t.Fatalf("colours or none: %q", text)
					}
					if nodes > 0 && height != 10 && !strings.Contains(text, fmt.Sprintf("node-%d", nodes-1)) {
						t.Fatalf("the node in trouble is not shown on %d by %d:\n%s", width, height, text)
					}
				}
			}
		}
	}
}

func TestQuietShardsAreNotShown(t *testing.T) {
	text := Screen{}.Draw(time.Unix(1, 0), &Snapshot{Hot: []HotShard{{Shard: 77, Reads: 1, Writes: 1}}}, new(Progress))
	if strings.Contains(text, "77") {
		t.Error(text)
	}
}

func TestOneShardIsNotSeveral(t *testing.T) {
	for total, want := range map[uint32]string{1: "1 shard of 3  1 whole", 1024: "1,024 shards of 3  1,024 whole"} {
		snap := &Snapshot{Replicas: 3, Shards: ShardCounts{Total: total, FullyReplicated: total}}
		if text := (Screen{}).Draw(time.Unix(1, 0), snap, new(Progress)); !strings.Contains(text, want+"\n") {
			t.Errorf("want %q in:\n%s", want, text)
		}
	}
}

func TestProgressKnowsHowLongItTakes(t *testing.T) {
	p, s := new(Progress), &Snapshot{Shards: ShardCounts{Total: 256, Moves: 100}}
	see := func(second int64, left uint32, copied uint64) string {
		s.Shards.Moves, s.CopiedBytes = left, copied
		p.See(time.Unix(second, 0), s)
		return p.Line(time.Unix(second, 0), s)
	}
	for _, c := range []struct {
		second int64
		left   uint32
		copied uint64
		want   string
	}{
		{1, 0, 0, ""},
		{2, 100, 0, "100 shards to go"},
		{12, 50, 10 << 20,
			"████████████░░░░░░░░░░░░  50 %  50 of 100 shards, about 0:10 left, 1.0 MiB/s"},
		{14, 50, 0,
			"████████████░░░░░░░░░░░░  50 %  50 of 100 shards, about 0:12 left, 1.0 MiB/s"},
		{15, 0, 0, ""},
		{16, 10, 0, "10 shards to go"},
	} {
		if got := see(c.second, c.left, c.copied); got != c.want {
			t.Errorf("after %d s: %q, not %q", c.second, got, c.want)
		}
	}
}

func TestTextIsCutBetweenCharactersAndColours(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"abcdef", 6, "abcdef"}, {"abcdef", 4, "abc…"}, {"äöüß", 3, "äö…"},
		{red + "abc" + plain + "def", 6, red + "abc" + plain + "def"}, {red + "abc" + plain + "def", 3, red + "ab…" + plain},
	} {
		if got := clip(c.text, c.width); got != c.want {
			t.Errorf("%q in %d columns: %q, not %q", c.text, c.width, got, c.want)
		}
	}
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d bytes: %s, not %s", n, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Grouped(n); got != want {
			t.Errorf("%d: %s, not %s", n, got, want)
		}
	}
}

func TestOtherVersionsAreShown(t *testing.T) {
	snap := &Snapshot{
		Nodes: []Node{{Name: "n1", Version: build.Name()}, {Name: "n2", Version: "v0.0.1"}, {Name: "n3"}},
		Controllers: []Controller{
			{Address: "c1", Leads: true, Version: build.Name()}, {Address: "c2", Reachable: true, Version: "v0.0.2"},
		},
	}
	want := "other versions than " + build.Name() + "  n2 v0.0.1  c2 v0.0.2\n"
	if text := (Screen{}).Draw(time.Unix(1, 0), snap, new(Progress)); !strings.Contains(text, want) {
		t.Errorf("want %q in:\n%s", want, text)
	}
	snap.Nodes[1].Version, snap.Controllers[1].Version = build.Name(), build.Name()
	if text := (Screen{}).Draw(time.Unix(1, 0), snap, new(Progress)); strings.Contains(text, "other versions") {
		t.Errorf("all versions are the same:\n%s", text)
	}
}
