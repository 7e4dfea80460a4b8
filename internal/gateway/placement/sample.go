package placement

// Use is how often an object was read and written.
type Use struct{ Reads, Writes uint64 }

// Sample is what the nodes of a key's chain counted for its object.
type Sample struct {
	At    float64
	Bytes int            // of the object
	Nodes map[string]Use // by the name of each node that has answered
	// Before and After are what this gateway itself had done at the chain before the nodes were asked, and when they had
	// answered.
	Before, After Use
}

// writesEach is how many writes of the object a client's write through another gateway takes: INTENT and RESOLVE.
const writesEach = 2

// Others returns what others than this gateway did with the object since an earlier sample, at least; reads that this
// gateway repeated, since an answer was late, count as others'. A read is counted by the node that answers it, a write
// by all nodes. A node that has answered only one of the times counts nothing.
func (s *Sample) Others(earlier *Sample) Use {
	var all Use
	for name, now := range s.Nodes {
		if before, known := earlier.Nodes[name]; known {
			all.Reads += counted(before.Reads, now.Reads)
			all.Writes = max(all.Writes, counted(before.Writes, now.Writes))
		}
	}
	return Use{
		Reads:  less(all.Reads, s.After.Reads-earlier.Before.Reads),
		Writes: less(all.Writes, s.After.Writes-earlier.Before.Writes) / writesEach,
	}
}

// counted returns by how much a counter rose. One that fell began at zero: its node was emptied or replaced.
func counted(before, now uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// less subtracts, down to zero.
func less(a, b uint64) uint64 { return a - min(a, b) }
