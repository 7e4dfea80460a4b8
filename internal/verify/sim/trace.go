package sim

import (
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/wire"
)

// every stands for all shards, or all keys.
const every = -1

// Line is one remark about a run.
type Line struct {
	At    time.Duration
	Shard int // every: it concerns all of them
	Key   int // likewise
	Text  string
}

// note remembers a line if the run is traced.
func (w *world) note(shard, key int, format string, args ...any) {
	if w.traced {
		w.result.Trace = append(w.result.Trace, Line{time.Duration(w.now), shard, key, fmt.Sprintf(format, args...)})
	}
}

func (w *world) noteMessage(verb string, from, to netip.AddrPort, m *wire.Message) {
	if !w.traced {
		return
	}
	text := fmt.Sprintf("%s %s %s: %v epoch %d", w.nameOf(from), verb, w.nameOf(to), m.Op, m.Epoch)
	if m.Session != 0 {
		text += fmt.Sprintf(" session %d/%d", m.Session, m.Seq)
	}
	if m.Version != 0 || m.Op == wire.OpReply {
		text += fmt.Sprintf(" version %d", m.Version)
	}
	if m.Op == wire.OpReply {
		text += fmt.Sprintf(" %v", m.Status())
	}
	w.note(int(m.Shard), w.keyNumber(m.Key), "%s", text)
}

func (w *world) noteOrder(n *node, o *reconfig.Order) {
	if !w.traced {
		return
	}
	for _, shard := range slices.Sorted(maps.Keys(o.Configs)) {
		c := o.Configs[shard]
		w.note(int(shard), every, "%s is ordered (%d/%d): %v in epoch %d, %s%s, copy from %q", n.name, o.Term,
			o.Number, c.Config.State,
			c.Config.Epoch, w.namesOf(c.Config.Members), learnerMark(c.Config.Learner), c.Source)
	}
}

func (w *world) namesOf(members []netip.AddrPort) string {
	var names []string
	for _, m := range members {
		names = append(names, w.nameOf(m))
	}
	return strings.Join(names, ">")
}

func (w *world) nameOf(a netip.AddrPort) string {
	switch e := endpointOf(a); {
	case e >= firstClient:
		return fmt.Sprintf("client %d", e-firstClient)
	case e >= firstController:
		return fmt.Sprintf("controller %d", e-firstController)
	default:
		return nodeName(int(e - firstNode))
	}
}

// Relevant are the last lines of a trace, up to the given time, that concern a shard and a key; of no key in
// particular, those that concern none.
func Relevant(trace []Line, shard, key int, until time.Duration, most int) []Line {
	var list []Line
	for _, l := range trace {
		if l.At <= until && (l.Shard == every || l.Shard == shard || shard == every) && (l.Key == every || l.Key == key) {
			list = append(list, l)
		}
	}
	return list[max(0, len(list)-most):]
}

// WriteTrace prints lines of a trace.
func WriteTrace(out io.Writer, trace []Line) error {
	for _, l := range trace {
		if _, err := fmt.Fprintf(out, "%9.3f ms  %s\n", float64(l.At)/float64(time.Millisecond), l.Text); err != nil {
			return err
		}
	}
	return nil
}
