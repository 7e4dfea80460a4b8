package core

// readable is the instance of the object from which a read of a key may be answered now; 0: there is none.
func (g *Gateway) readable(key string) (instance int64) {
	if g.alive() {
		return g.named(key)
	}
	return 0
}

// named is the instance of the object from which reads of a key are answered while the session lasts; 0: there is none.
func (g *Gateway) named(key string) (instance int64) {
	if l := g.life; l != nil && !l.over && !l.closed && !l.free && !g.inherited(key) {
		return l.placed[key]
	}
	return 0
}

// BeginRead returns the instance of the object from which a read of a key may be answered now; 0: etcd has to answer.
// inherited says that the key was placed before this session. No read is answered from its object until it is placed
// anew: before the session no gateway may have run, and clients may have written to etcd directly.
func (g *Gateway) BeginRead(key string) (instance int64, inherited bool) {
	return g.readable(key), g.inherited(key)
}

// inherited compares two revisions of etcd: an instance is drawn before the key is placed.
func (g *Gateway) inherited(key string) bool {
	if g.life == nil || !g.on(Inherited) {
		return false
	}
	instance := g.life.placed[key]
	rev, _ := Drawn(instance)
	return instance != 0 && rev < g.life.create
}

// Has reports whether the directory has a key.
func (g *Gateway) Has(key string) bool { return g.life != nil && g.life.placed[key] != 0 }

func (g *Gateway) alive() bool { return g.options.Alive == nil || g.options.Alive() }

// cleanUp clears bits whose writes are over for certain. The order is the rule: the ticket, then that no own write is
// under way, then one read of etcd that shows the session alive, or the owner's ended, together with the key.
func (g *Gateway) cleanUp(l *life, key string) {
	if l.cleaning[key] || l.placed[key] == 0 {
		return
	}
	l.cleaning[key] = true
	again := func() { l.cleaning[key], l.suspects[key] = false, true }
	g.chain(Op{Kind: ReadObject, Key: key}, func(a Answer) {
		object := &a.Object
		switch {
		case a.Status == Away:
			again()
			return
		case a.Status != OK || object.Bits == 0:
			l.cleaning[key] = false
			return
		}
		idle, tainted := true, uint64(0)
		if o := l.keys[key]; o != nil {
			idle, tainted = len(o.under) == 0, o.tainted
		}
		session := g.names.session + l.lease
		g.surely(l, Request{Get: []string{session, key}, List: []string{g.names.bit}}, func(r *Result) {
			switch {
			case l.over:
				return
			case r.KVs[session].Create != l.create || !g.hasBit(l, r):
				g.lost(l)
				return
			}
			g.pushed(r.Rev, func() { g.clear(l, key, object, r, idle, tainted) })
		})
	})
}

// clear ends a clean-up.
func (g *Gateway) clear(l *life, key string, object *Object, r *Result, idle bool, tainted uint64) {
	l.cleaning[key] = false
	for bit := range uint8(MaxGateways) {
		if object.Bits&(1<<bit) == 0 {
			continue
		}
		_, owned := r.KVs[g.bitKey(bit)]
		mine := bit == l.bit
		switch {
		case mine && !idle:
			l.suspects[key] = true
			continue
		case !mine && owned:
			continue
		}
		op := Op{
			Kind: Resolve, Key: key, Instance: object.Instance, Bit: bit, Ticket: object.Tickets[bit], Clear: true,
			Entry: r.entry(key),
		}
		g.chain(op, func(Answer) {
			o := l.keys[key]
			if !mine || o == nil || o.instance != op.Instance || o.tainted != tainted {
				return
			}
			o.tainted = 0
			if len(o.under) == 0 && o.ticket == op.Ticket {
				delete(l.keys, key)
			}
		})
	}
}
