package keyspacesim

import "github.com/netcraq/netcraq/internal/keyspace/core"

// chain is a model of the chain's linearizable objects: the cells of each era's log. A shard has the cells of some
// slots; one that loses its state has none of them.
type chain struct {
	w    *world
	away []uint64            // until when a shard does not answer
	lost []int               // how often a shard has lost its state, which begins a new epoch
	logs map[uint64][]stored // by era
}

// stored is an object.
type stored struct {
	exists  bool
	version uint64
	cell    core.Cell
	id      uint64 // of the write in the entry
}

func (c *chain) slot(index uint64) int { return int(index % uint64(c.w.Ring)) }

func (c *chain) shard(slot int) int { return slot % c.w.Shards }

// object returns an object of an era's log. One that does not exist is lost.
func (c *chain) object(era, index uint64) *stored {
	log := c.logs[era]
	if log == nil {
		return &stored{}
	}
	return &log[c.slot(index)]
}

// call executes an operation at a shard, once, late or never. answer is called once; without ok it may still be executed.
// Messages of an earlier epoch are refused, so an operation from before a loss is executed only while its caller waits
// and sends it again.
func (c *chain) call(l *life, shard int, do func(), answer func(ok bool)) {
	w, answered := c.w, false
	reply := func(ok bool) {
		l.enter(func() {
			if !answered {
				answered = true
				answer(ok)
			}
		})
	}
	there, back, end, epoch := w.delay(), w.delay(), w.Now+uint64(w.Patience), c.lost[shard]
	if there+back > uint64(w.Patience) {
		w.After(uint64(w.Patience), func() { reply(false) })
	}
	w.After(there, func() {
		if w.Now < c.away[shard] {
			w.After(max(end, w.Now)-w.Now, func() { reply(false) })
			return
		}
		if w.Now > end && c.lost[shard] != epoch {
			return
		}
		do()
		w.After(back, func() { reply(true) })
	})
}

// read reads the cell of an entry.
func (c *chain) read(l *life, era, index uint64, answer func(found stored, ok bool)) {
	var found stored
	c.call(l, c.shard(c.slot(index)), func() {
		found = *c.object(era, index)
		found.cell.Lost = !found.exists
	}, func(ok bool) { answer(found, ok) })
}

// write replaces the cell of an entry if it has a version. swapped is false if it had another one or is lost.
func (c *chain) write(l *life, era, index, version uint64, cell core.Cell, id uint64, answer func(swapped, ok bool)) {
	var swapped bool
	c.call(l, c.shard(c.slot(index)), func() {
		o := c.object(era, index)
		if swapped = o.exists && o.version == version; swapped {
			o.version, o.cell, o.id = version+1, cell, id
			c.w.note("chain: era %d has %+v, write %d", era, cell, id)
		}
	}, func(ok bool) { answer(swapped, ok) })
}

// make makes the objects of an era's log that do not exist.
func (c *chain) make(l *life, era uint64, answer func(ok bool)) {
	left, failed := c.w.Shards, false
	for shard := range c.w.Shards {
		c.call(l, shard, func() {
			if c.logs[era] == nil {
				c.logs[era] = make([]stored, c.w.Ring)
			}
			for i := range c.logs[era] {
				if o := &c.logs[era][i]; c.shard(i) == shard && !o.exists {
					*o = stored{exists: true, version: 1}
				}
			}
		}, func(ok bool) {
			failed = failed || !ok
			if left--; left == 0 {
				answer(!failed)
			}
		})
	}
}

// lose makes a shard lose its state.
func (c *chain) lose(shard int) {
	c.w.result.Losses++
	c.lost[shard]++
	for _, log := range c.logs {
		for i := range log {
			if c.shard(i) == shard {
				log[i] = stored{}
			}
		}
	}
}
