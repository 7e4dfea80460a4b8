package core

// Cell is an object of the log's ring, as the chain has it.
type Cell struct {
	Lost  bool   // the chain does not have the object
	Index uint64 // of the entry in it; 0: none yet
	Term  uint64 // of the entry's writer
	Seal  bool   // the log ends before Index
}

// Verdict says what a cell means to a reader.
type Verdict uint8

// The verdicts.
const (
	Entry  Verdict = iota // it has the reader's next entry
	End                   // the log ends here so far
	Behind                // the reader's next entry was overwritten
	Sealed                // the log ends here for ever
	Lost                  // the chain has lost its state
)

// Cursor is a reader's place in a log.
type Cursor struct {
	Next uint64 // the index of the next entry
	Term uint64 // of the entry before
}

// Take takes the cell of the next entry, and goes on if the entry counts as the log's next one: entry n comes after
// entry n-1, and its term is not lower. An entry of a lower term comes from a writer that was deposed.
func (c *Cursor) Take(cell Cell) Verdict {
	switch {
	case cell.Lost:
		return Lost
	case cell.Index > c.Next:
		return Behind
	case cell.Index < c.Next || cell.Term < c.Term:
		return End
	case cell.Seal:
		return Sealed
	}
	c.Next, c.Term = c.Next+1, cell.Term
	return Entry
}

// Step says what a writer does next.
type Step uint8

// The steps.
const (
	WriteCell Step = iota // write the cell, if it still has the version that was read
	ReadOn                // read the log on, to its end
	Written               // the cell has the writer's entry, or the log's last entry is of the writer's term
	Deposed               // a later writer has the log, or it is sealed
)

// Fence takes the cell at the log's end, and says how the writer of a term makes the log its own: by an entry of its
// term. An earlier writer needs that cell for its next entry, so nothing more of it is committed.
func (c Cursor) Fence(term uint64, cell Cell) Step {
	switch {
	case c.Term > term:
		return Deposed
	case c.Term == term:
		return Written
	case cell.Term > term, cell.Seal && cell.Index == c.Next:
		return Deposed
	}
	if v := c.Take(cell); v != End {
		return ReadOn
	}
	return WriteCell
}

// Judge says what a writer that wants to write entry index does about the value that it finds in the entry's cell.
func Judge(term, index uint64, cell Cell) Step {
	switch {
	case cell.Seal && cell.Index == index, cell.Term > term:
		return Deposed
	case cell.Term == term && cell.Index == index:
		return Written
	}
	return WriteCell
}

// Fits reports whether n entries from next on fit into a ring: an entry is overwritten only if it is released, because
// readers get the state behind it otherwise. released is the index of the last such entry.
func Fits(next, n, released, ring uint64) bool { return next+n-1 <= released+ring }

// Fences is the number of a ring's entries that are left to the fences of writers to come if only a writer's own
// snapshots release entries. Without room for its fence, no writer can take over, and none can release an entry.
func Fences(ring uint64) uint64 { return max(1, ring/16) }
