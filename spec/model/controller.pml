/* The controller: C1 to C3. Its orders arrive once and are carried out, one member at a time; nodes go on meanwhile. */

/*
 * C1: the epoch is durable before it is used. C2: those that stay keep their order, and the first of them leads. A learner that would stand at an end of the
 * chain is dropped (C3).
 */
inline begin(set) {
	members = set;
#ifndef WITHOUT_C2
	if
	:: node[1].learner && (FIRST(members) == 1 || LAST(members) == 1) -> members = members & ~BIT(1)
	:: else
	fi;
#endif
	epoch = epoch + 1;
	chain[epoch] = members;
	pending = members;
	stage = freezing
}

/* Member n is dealt with; the last one ends the stage. */
inline reached(n, next_stage) {
	pending = pending & ~BIT(n);
	if
	:: pending == 0 -> stage = next_stage; pending = chain[epoch]
	:: else
	fi
}

inline freeze(n) {
	node[n].epoch = epoch;
	node[n].frozen = true;
	reached(n, waiting)
}

/* C1: a node outside the chain may answer until its lease is over. Members' leases are renewed in time. */
#define LEASE_OUTSIDE(n) (node[n].lease && !IN(n, chain[epoch]))
#ifdef WITHOUT_C1
#define LEASES_ARE_OVER true
#else
#define LEASES_ARE_OVER (!LEASE_OUTSIDE(0) && !LEASE_OUTSIDE(1) && !LEASE_OUTSIDE(2) && !LEASE_OUTSIDE(NODES - 1))
#endif

inline push_session(from, to, s) {
	if
	:: node[from].session[s].op > node[to].session[s].op ->
		node[to].session[s].op = node[from].session[s].op;
		node[to].session[s].version = node[from].session[s].version;
		node[to].session[s].value = node[from].session[s].value
	:: else
	fi
}

inline waited() {
	stage = activating;
#ifdef GROW
	if
	:: hold -> stage = holding; pending = 7
	:: else
	fi
#endif
}

/* C1, in any order. C2: all that an active tail holds is committed, and it answers probes so (W9). */
inline activate(n) {
	node[n].frozen = false;
	node[n].lease = !node[n].learner;
	if
#ifdef WITHOUT_C2_TAIL
	:: true -> node[n].committed = node[n].version
#else
	:: IS_TAIL(n) ->
		node[n].committed = node[n].version;
		sent[epoch].ack = sent[epoch].ack | BIT(node[n].committed)
	:: else
#endif
	fi;
	reached(n, settled);
	if
	:: stage == settled && node[1].learner && IN(1, chain[epoch]) -> stage = copying; pending = 7
	:: stage == settled && !(node[1].learner && IN(1, chain[epoch])) -> pending = 0
	:: else
	fi
}

/* C3: all that the tail holds is committed. */
inline copy_object(from, to) {
	if
	:: node[from].version > node[to].version ->
		new_version = node[from].version;
		new_value = node[from].value;
		apply(to);
		node[to].committed = new_version
	:: else
	fi
}

/* C3: the parts are 1 for the object, 2 and 4 for the sessions. When all are there the learner gets its lease. */
inline copied(part) {
	pending = pending & ~part;
	if
	:: pending == 0 ->
		node[1].learner = false;
		node[1].lease = true;
		stage = settled
	:: else
	fi
}

#ifdef GROW
/* C3: a chain of one is frozen while node 1, its future tail, copies its state. */
inline held(part) {
	pending = pending & ~part;
	if
	:: pending == 0 -> hold = false; begin(3)
	:: else
	fi
}

/* The copy takes too long: the chain goes on alone, and the copied state is deleted (C4). */
inline let_go() {
	for (place : 0 .. SESSIONS - 1) {
		node[1].session[place].op = 0;
		node[1].session[place].version = 0;
		node[1].session[place].value = 0
	}
	node[1].version = 0;
	node[1].committed = 0;
	node[1].value = 0;
	hold = false;
	stage = activating;
	pending = chain[epoch]
}
#endif

/* A change begins when the one before is over, or in the middle of it. */
#ifdef CHANGE_DURING_CHANGE
#define MAY_CHANGE (epoch < EPOCHS && stage != holding)
#else
#define MAY_CHANGE (epoch < EPOCHS && (stage == settled || stage == copying))
#endif

#define REMOVE(n)   :: d_step { MAY_CHANGE && IN(n, chain[epoch]) && chain[epoch] != BIT(n) -> printf("controller: epoch %d is without node %d\n", epoch + 1, n); begin(chain[epoch] & ~BIT(n)) }
#define EXPIRE(n)   :: d_step { LEASE_OUTSIDE(n) -> printf("node %d: its lease is over\n", n); node[n].lease = false }
#define FREEZE(n)   :: d_step { stage == freezing && IN(n, pending) -> printf("controller: freezes node %d in epoch %d\n", n, epoch); freeze(n) }
#define ACTIVATE(n) :: d_step { stage == activating && IN(n, pending) -> printf("controller: activates node %d\n", n); activate(n) }

proctype Controller() {
end:	do
	REMOVE(0) REMOVE(1) REMOVE(2)
	EXPIRE(0) EXPIRE(1) EXPIRE(2)
	FREEZE(0) FREEZE(1) FREEZE(2)
	:: d_step { stage == waiting && LEASES_ARE_OVER -> printf("controller: has waited\n"); waited() }
	ACTIVATE(0) ACTIVATE(1) ACTIVATE(2)
#if NODES > 3
	REMOVE(3) EXPIRE(3) FREEZE(3) ACTIVATE(3)
#endif
#ifdef JOIN
	/* C3: node 1 joins between 0 and 2, once. */
	:: d_step { MAY_CHANGE && chain[epoch] == 5 && node[1].epoch == 0 ->
		printf("controller: epoch %d is with node 1 as a learner\n", epoch + 1);
		node[1].learner = true;
		begin(7)
	}
#ifdef WITHOUT_C3
	:: d_step { stage == copying -> printf("controller: copies nothing\n"); copied(pending) }
#else
	:: d_step { stage == copying && (pending & 1) -> printf("controller: copies the object to the learner\n"); copy_object(2, 1); copied(1) }
	:: d_step { stage == copying && (pending & 2) -> printf("controller: copies one session to the learner\n"); push_session(2, 1, 0); copied(2) }
	:: d_step { stage == copying && (pending & 4) -> printf("controller: copies the other session to the learner\n"); push_session(2, 1, 1); copied(4) }
#endif
#endif
#ifdef GROW
	:: d_step { MAY_CHANGE && epoch + 1 < EPOCHS && chain[epoch] == 1 && node[1].epoch == 0 && !hold ->
		printf("controller: epoch %d is held until node 1 has a copy\n", epoch + 1);
		hold = true;
		begin(1)
	}
	:: d_step { stage == holding && (pending & 1) -> printf("controller: copies the object to node 1\n"); copy_object(0, 1); held(1) }
	:: d_step { stage == holding && (pending & 2) -> printf("controller: copies one session to node 1\n"); push_session(0, 1, 0); held(2) }
	:: d_step { stage == holding && (pending & 4) -> printf("controller: copies the other session to node 1\n"); push_session(0, 1, 1); held(4) }
	:: d_step { stage == holding -> printf("controller: gives the copy up\n"); let_go() }
#endif
	od
}
