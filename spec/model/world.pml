/* The size of the world, its state, the observations of clients, and the invariants. */

/* ---- size ---------------------------------------------------------------------------------------------------------- */

#ifndef NODES
#define NODES 3             /* 3 or 4 */
#endif
#ifndef FIRST_CHAIN
#define FIRST_CHAIN 7       /* members of the first chain, by 1 << node */
#endif
#ifndef EPOCHS
#define EPOCHS 2            /* configurations, the first one included */
#endif
#ifndef OPS
#define OPS 3               /* writes, numbered from 1: 1 and then 3 are of one session, 2 is of another */
#endif
#ifndef ADDS
#define ADDS 4              /* which of them are ADDs, by 1 << number; the others are PUTs */
#endif
#ifndef VERSIONS
#define VERSIONS 4          /* 4 or 5; that no run needs more is checked */
#endif

#define SESSIONS 2
#define SESSION(op) (((op) + 1) % 2)
#define IS_ADD(op) ((ADDS >> (op)) & 1)
#define BIT(i) (1 << (i))

/* ---- values -------------------------------------------------------------------------------------------------------- */

/*
 * A value says how it came about: for every version since the last PUT, in two bits, the write that made it. Two equal
 * numbers that were counted in different ways are different here, so the checks see more than a client would.
 */
#define WRITER(value, v) (((value) >> (2 * ((v) - 1))) & 3)
#define WRITTEN(op, v) ((op) << (2 * ((v) - 1)))

/* ---- state --------------------------------------------------------------------------------------------------------- */

typedef Entry {
	byte op;                    /* last write; within a session, numbers order as seq does */
	byte version;
	short value                 /* for ADD the result */
};

typedef Machine {
	byte epoch;                 /* of the configuration it knows; 0: none */
	bool frozen;                /* else active */
	bool lease;
	bool learner;
	byte version;               /* of the one object */
	byte committed;
	short value;
	Entry session[SESSIONS]
};

/* All messages sent in an epoch. None is removed: it may arrive at once, late, often or never. Bits are 1 << version. */
typedef Sent {
	short value[VERSIONS + 1];  /* that the UPDATE of a version carries */
	byte update[NODES];         /* UPDATEs, by receiver */
	byte relay[NODES];          /* RELAYs, by receiver */
	byte ack                    /* ACKs, which every member may receive */
};

typedef Write {
	bool begun;
	bool answered;              /* a REPLY with OK exists */
	byte done;                  /* the newest epoch when the client had its answer and stopped retrying; 0: not yet */
	byte after;                 /* ghost: newest version that had been seen when it began */
	byte at                     /* ghost: version at which its effect was seen; 0: not yet */
};

mtype = { settled, freezing, waiting, activating, copying, holding };

Machine node[NODES];
Sent sent[EPOCHS + 1];
Write write[OPS + 1];
byte chain[EPOCHS + 1];         /* members, by 1 << node. In a chain nodes stand in the order of their numbers */
byte epoch = 1;                 /* the newest, durable */
mtype stage = settled;          /* of the change to the newest epoch */
byte pending;                   /* members that the stage has yet to reach, by 1 << node */
#ifdef GROW
bool hold;                      /* a chain of one stays frozen until node 1 has its copy */
#endif
byte seen;                      /* ghost: newest version that a read returned or a write was answered with */

/* Used within one step only, so that they are not part of the state. */
hidden short new_value, values, members;
hidden byte new_version, writer, rival, place, next, v;

/* ---- chains -------------------------------------------------------------------------------------------------------- */

#define FIRST(set) (((set) & 1) -> 0 : (((set) & 2) -> 1 : (((set) & 4) -> 2 : 3)))
#define LAST(set) (((set) & 8) -> 3 : (((set) & 4) -> 2 : (((set) & 2) -> 1 : 0)))
#define BEFORE(n, set) ((set) & (BIT(n) - 1))
#define BEHIND(n, set) ((set) & ~(BIT((n) + 1) - 1))
#define IN(n, set) (((set) >> (n)) & 1)
#define CHAIN_OF(n) chain[node[n].epoch]
#define IS_HEAD(n) (FIRST(CHAIN_OF(n)) == n)
#define IS_TAIL(n) (LAST(CHAIN_OF(n)) == n)
#define ACTIVE(n) (node[n].epoch != 0 && !node[n].frozen)
#define CLEAN(n) (node[n].version == node[n].committed)
#define TAIL LAST(chain[epoch])

/* ---- clients' view ------------------------------------------------------------------------------------------------- */

/* A claim that does not hold ends the run; the words are printed when the run is shown. */
#define FAIL(words) printf(words); assert(false)
#define CLAIM(condition, words) if :: (condition) :: else -> FAIL(words) fi

/*
 * A version is a place in one order of all writes. This order is a linearization iff no write takes effect at two versions
 * and no two at one, a write comes after all versions seen before it began, and reads return no version older than those seen.
 */
inline see_writer() {
	CLAIM(write[writer].begun && v > write[writer].after, "violated: a write took effect before something that was seen before it began\n");
	for (rival : 1 .. OPS) {
		CLAIM(rival == writer || write[rival].at != v, "violated: two writes were seen at the same version\n")
	}
	CLAIM(write[writer].at == 0 || write[writer].at == v, "violated: a write took effect twice\n");
	write[writer].at = v
}

/* A client gets the answer new_version with new_value. */
inline see() {
	for (v : 1 .. new_version) {
		writer = WRITER(new_value, v);
		if
		:: writer != 0 -> see_writer()
		:: else
		fi
	}
	if
	:: new_version > seen -> seen = new_version
	:: else
	fi
}

/* ---- invariants ---------------------------------------------------------------------------------------------------- */

#define SETTLED (stage == settled || stage == copying)
#define READABLE(n) (IN(n, chain[epoch]) && !node[n].learner)
#define I1(n) (node[n].committed <= node[n].version)
#define I3(n) (!IN(n, chain[epoch]) || node[n].committed <= node[TAIL].version)
#define I4(before, n) (!READABLE(before) || !READABLE(n) || node[before].version >= node[n].version)
#define I5(n) (!READABLE(n) || !CLEAN(n) || node[n].value == node[TAIL].value)
#define EACH(claim) (claim(0) && claim(1) && claim(2) && claim(NODES - 1))
#define IN_ORDER (I4(0, 1) && I4(0, 2) && I4(1, 2) && I4(0, NODES - 1) && I4(1, NODES - 1) && I4(2, NODES - 1))

/*
 * Looks at every state: its steps can be taken only in one that breaks an invariant. A value says its version, so that I5
 * compares both. I2 follows from I1 and from the conditions of the steps.
 */
proctype Monitor() {
end:	do
	:: d_step { !EACH(I1) -> FAIL("violated: I1, a node has committed more than it has\n") }
	:: d_step { SETTLED && !EACH(I3) -> FAIL("violated: I3, a member takes more for committed than the tail holds\n") }
	:: d_step { SETTLED && !IN_ORDER -> FAIL("violated: I4, a member holds more than one before it\n") }
	:: d_step { SETTLED && !EACH(I5) -> FAIL("violated: I5, a clean copy differs from the tail's\n") }
	:: d_step { SETTLED && node[TAIL].version < seen -> FAIL("violated: I6, the tail does not hold what was answered\n") }
	od
}
