package admin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/platform/build"
)

// Screen says how a snapshot is drawn.
type Screen struct {
	Width, Height int // 0: as much as it takes
	Colour        bool
}

// paint colours a text.
func (s Screen) paint(code, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return code + text + plain
}

// wide is from how many columns on labels are shown.
const wide = 100

const (
	shownNotes = 5  // with little room
	shownHot   = 8  // with little room
	leastHot   = 3  // however little
	busyFrom   = 10 // operations a second that make a shard worth a line
)

// Draw draws a snapshot in whole lines: problems first, then the nodes and their loads.
func (s Screen) Draw(now time.Time, snap *Snapshot, progress *Progress) string {
	var head strings.Builder
	fmt.Fprintln(&head, clip(s.paint(bold, title(snap)), s.Width))
	if !snap.Static {
		fmt.Fprintln(&head, clip(s.controllers(snap), s.Width))
	}
	fmt.Fprintln(&head, clip(s.shards(snap), s.Width))
	if others := snap.otherVersions(); len(others) > 0 {
		text := fmt.Sprintf("other versions than %s  %s", build.Name(), strings.Join(others, "  "))
		fmt.Fprintln(&head, clip(s.paint(yellow, text), s.Width))
	}
	for _, k := range snap.Keyspaces {
		fmt.Fprintln(&head, clip(s.keyspace(&k), s.Width))
	}
	if line := progress.Line(now, snap); line != "" {
		fmt.Fprintln(&head, clip(s.paint(yellow, line), s.Width))
	}
	notes, hot := snap.general(), slices.DeleteFunc(slices.Clone(snap.Hot), func(h HotShard) bool { return h.Reads+h.Writes < busyFrom })
	if s.Height > 0 {
		notes = notes[:min(shownNotes, len(notes))]
	}
	for _, note := range notes {
		fmt.Fprintln(&head, clip(s.paint(yellow, "! "+note), s.Width))
	}
	fmt.Fprintln(&head)
	room := 0
	if s.Height > 0 {
		free := s.Height - 1 - strings.Count(head.String(), "\n")
		hot = hot[:min(len(hot), max(leastHot, min(shownHot, free-snap.nodeLines()-2)))]
		room = max(3, free)
		if len(hot) > 0 {
			room = max(3, free-len(hot)-2)
		}
	}
	text := head.String() + s.nodes(snap, room)
	if len(hot) > 0 {
		text += "\n" + s.hot(hot)
	}
	return s.fit(text)
}

func title(snap *Snapshot) string {
	if snap.Static {
		return fmt.Sprintf("static chain  epoch %s", Grouped(uint64(snap.Epoch)))
	}
	return fmt.Sprintf("cluster %s  leader %s  term %s  change %s", snap.Cluster, cmp.Or(snap.Leader, "none"),
		Grouped(snap.Term), Grouped(snap.Change))
}

// fit drops the last lines that there is no room for.
func (s Screen) fit(text string) string {
	lines := strings.SplitAfter(text, "\n")
	if s.Height == 0 || len(lines) <= s.Height {
		return text
	}
	return strings.Join(lines[:s.Height-1], "")
}

func (s Screen) shards(snap *Snapshot) string {
	c := snap.Shards
	parts := []string{fmt.Sprintf("%s of %d", CountShards(uint64(c.Total)), snap.Replicas)}
	for _, part := range []struct {
		count uint32
		what  string
		paint string
	}{{c.Down, "down", red}, {c.Changing, "changing", yellow}, {c.UnderReplicated, "short", yellow}, {c.FullyReplicated, "whole", green},
		{c.Copying - min(c.Catching, c.Copying), "copying", yellow}, {c.Catching, "catching up", yellow}, {c.Moves, "to move", yellow}} {
		if part.count > 0 || part.what == "whole" {
			parts = append(parts, s.paint(part.paint, Grouped(uint64(part.count))+" "+part.what))
		}
	}
	return strings.Join(parts, "  ")
}

func (s Screen) keyspace(k *Keyspace) string {
	text := fmt.Sprintf("keyspace %s  era %d  disks %s", k.Name, k.Era, cmp.Or(strings.Join(k.Disks, " "), "none"))
	if k.Prepared > 0 {
		text += s.paint(yellow, fmt.Sprintf("  era %d is prepared", k.Prepared))
	}
	return text
}

// standingPaint colours a node's standing.
var standingPaint = map[string]string{"up": green, "draining": yellow, "cordoned": yellow, "suspected": red, "suspected while draining": red, "removed": dim,
	"waiting": yellow, "no answer": red}

func (s Screen) nodes(snap *Snapshot, room int) string {
	titles := []string{"NODE", "STATE", ">HEADS", ">SHARDS", ">READS/S", ">WRITES/S", ">OBJECTS", ">FULL"}
	if !snap.Static {
		titles = append(titles, ">SILENT")
	}
	if !snap.Static && (s.Width == 0 || s.Width >= wide) {
		titles = append(titles, "LABELS")
	}
	t := newTable(titles...)
	nodes, more := s.chosen(snap, room)
	for _, n := range nodes {
		shards := Grouped(uint64(n.Shards))
		if n.Learning > 0 {
			shards += fmt.Sprintf(" (%d new)", n.Learning)
		}
		cells := []string{n.Name, s.paint(standingPaint[n.Standing], n.Standing), Grouped(uint64(n.Heads)), shards,
			Grouped(n.Reads), Grouped(n.Writes), Grouped(n.Objects), percent0(n.Objects, n.MaxObjects)}
		if !snap.Static {
			cells = append(cells, silence(n.SilentMS))
		}
		if len(titles) > len(cells) {
			cells = append(cells, labelText(n.Labels))
		}
		t.add(cells...)
	}
	text := t.text(s.Width)
	for _, n := range nodes {
		if n.Trouble != "" {
			text += clip(s.paint(red, "! "+n.Name+": "+n.Trouble), s.Width) + "\n"
		}
	}
	if more > 0 {
		text += fmt.Sprintf("and %s more nodes\n", Grouped(uint64(more)))
	}
	return text
}

// chosen are the nodes that there is room for: those in trouble first, then the busiest. If there is room for all, they stand
// as they come.
func (s Screen) chosen(snap *Snapshot, room int) (nodes []Node, more int) {
	if room == 0 || snap.nodeLines() <= room {
		return snap.Nodes, 0
	}
	nodes = slices.Clone(snap.Nodes)
	slices.SortStableFunc(nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(b.urgency(), a.urgency()), cmp.Compare(b.Reads+b.Writes, a.Reads+a.Writes))
	})
	lines := 2
	for i, n := range nodes {
		if lines++; n.Trouble != "" {
			lines++
		}
		if lines > room {
			return nodes[:i], len(nodes) - i
		}
	}
	return nodes, 0
}

// nodeLines is how many lines all nodes take, with the title.
func (s *Snapshot) nodeLines() int {
	lines := len(s.Nodes) + 1
	for _, n := range s.Nodes {
		if n.Trouble != "" {
			lines++
		}
	}
	return lines
}

// general are the notes that do not repeat the trouble of a node.
func (s *Snapshot) general() []string {
	troubles := make(map[string]bool)
	for _, n := range s.Nodes {
		troubles["node "+n.Name+": "+n.Trouble] = n.Trouble != ""
	}
	return slices.DeleteFunc(slices.Clone(s.Notes), func(note string) bool { return troubles[note] })
}

// urgency orders nodes by how much they want to be looked at.
func (n *Node) urgency() int {
	switch {
	case n.Trouble != "":
		return 3
	case strings.HasPrefix(n.Standing, "suspected"):
		return 2
	case n.Standing != "up" && n.Standing != "removed":
		return 1
	}
	return 0
}

func (s Screen) hot(shards []HotShard) string {
	t := newTable(">SHARD", ">READS/S", ">WRITES/S", ">MEMBERS", "CHAIN")
	for _, h := range shards {
		members := fmt.Sprint(len(h.Members))
		if h.Extra > 0 {
			members = fmt.Sprintf("%d+%d", len(h.Members)-min(int(h.Extra), len(h.Members)), h.Extra)
		}
		t.add(fmt.Sprint(h.Shard), Grouped(h.Reads), Grouped(h.Writes), members, strings.Join(h.Members, " > "))
	}
	return t.text(s.Width)
}

func (s Screen) controllers(snap *Snapshot) string {
	var parts []string
	for _, c := range snap.Controllers {
		text := c.Address
		switch {
		case c.Leads:
			text += s.paint(green, " leads")
		case !c.Reachable:
			text += s.paint(red, " away")
		case c.Change > 0 && c.Change < snap.Change:
			text += s.paint(yellow, fmt.Sprintf(" %s behind", Grouped(snap.Change-c.Change)))
		default:
			text += s.paint(green, " ok")
		}
		parts = append(parts, text)
	}
	return "controllers  " + strings.Join(parts, "  ")
}

func silence(ms uint32) string {
	if ms < 1000 {
		return fmt.Sprintf("%d ms", ms)
	}
	return clock(time.Duration(ms) * time.Millisecond)
}

func percent0(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole))
}

func labelText(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, ",")
}
