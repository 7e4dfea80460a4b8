package core

// Cell is a key of the chain: an object, or the revision object. [Cell.Apply] executes operations on it, for
// internal/gateway/objects in a real chain and for the simulation in a model.
type Cell struct {
	Epoch    uint64  // of its shard: another one whenever the shard lost its state
	Object   *Object // nil: none
	Revision int64   // of the revision object; 0: none
}

// Apply executes one operation, with some rules switched off, and reports whether the cell has to be written. It may change the
// object in place. Whether there is room for a new object, the caller decides.
func (c *Cell) Apply(op *Op, without Rule) (a Answer, changed bool) {
	a.Epoch = c.Epoch
	o := c.Object
	switch op.Kind {
	case ReadRevision:
		if a.Rev = c.Revision; a.Rev == 0 {
			a.Status = Miss
		}
	case ReadObject:
		if o == nil {
			a.Status = Miss
		} else {
			a.Object = *o
		}
	case Max:
		changed = c.max(op, &a)
	case Create:
		switch {
		case op.Epoch != c.Epoch, o != nil && o.Instance > op.Instance:
			a.Status = Gone
		case o == nil || o.Instance < op.Instance:
			c.Object, changed = &Object{Instance: op.Instance, Joining: without&Joining == 0}, true
		}
	case SetBit, Resolve, Load, Remove:
		changed = c.change(op, &a, without)
	}
	return a, changed
}

func (c *Cell) max(op *Op, a *Answer) (changed bool) {
	switch {
	case op.Epoch != c.Epoch:
		a.Status = Gone
	case c.Revision == 0 && !op.Make:
		a.Status = Miss
	default:
		if changed = op.Rev > c.Revision; changed {
			c.Revision = op.Rev
		}
		a.Rev = c.Revision
	}
	return changed
}

// change executes an operation that needs an object of the named instance.
func (c *Cell) change(op *Op, a *Answer, without Rule) (changed bool) {
	o := c.Object
	if without&Instance != 0 && o == nil {
		o = &Object{Instance: op.Instance}
		c.Object = o
	}
	if o == nil || o.Instance != op.Instance && without&Instance == 0 {
		a.Status = Gone
		return false
	}
	if op.Kind == Remove {
		c.Object = nil
		return true
	}
	o.take(op, a, without)
	return true
}

// take executes INTENT, RESOLVE or LOAD.
func (o *Object) take(op *Op, a *Answer, without Rule) {
	switch op.Kind {
	case SetBit:
		o.Counter++
		o.Bits |= 1 << op.Bit
		o.Tickets[op.Bit] = o.Counter
		a.Ticket = o.Counter
	case Resolve:
		o.store(op.Entry)
		if op.Clear && (o.Tickets[op.Bit] == op.Ticket || without&Ticket != 0) {
			o.Bits &^= 1 << op.Bit
		}
	case Load:
		o.store(op.Entry)
		o.Joining, o.Floor = false, max(o.Floor, op.Rev)
	}
}
