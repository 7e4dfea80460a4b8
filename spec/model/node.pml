/* A node: W1 to W8, R1, R4, A10. Each step handles one message. */

/* ---- writes -------------------------------------------------------------------------------------------------------- */

inline apply(n) {
	node[n].version = new_version;
	node[n].value = new_value
}

inline record(n) {
	node[n].session[SESSION(writer)].op = writer;
	node[n].session[SESSION(writer)].version = new_version;
	node[n].session[SESSION(writer)].value = new_value
}

/* The client is told that its write has new_version. This counts as seen from here on, whenever the answer arrives. */
inline answer() {
	see();
	writer = WRITER(new_value, new_version);
	write[writer].answered = true
}

/*
 * W7: passes the write of new_version on, or ends it at the tail. It may be older than the object. An ACK counts as sent even
 * where the tail relays, because any member may ask for it at any time (W9).
 */
inline hand(n) {
	if
	:: IS_TAIL(n) ->
		node[n].committed = node[n].version;
		sent[node[n].epoch].ack = sent[node[n].epoch].ack | BIT(node[n].committed);
#ifdef RELAY
		if
		:: IS_HEAD(n) -> answer()
		:: else ->
			next = LAST(BEFORE(n, CHAIN_OF(n)));
			sent[node[n].epoch].relay[next] = sent[node[n].epoch].relay[next] | BIT(new_version)
		fi
#else
		answer()
#endif
	:: else ->
		next = FIRST(BEHIND(n, CHAIN_OF(n)));
		sent[node[n].epoch].update[next] = sent[node[n].epoch].update[next] | BIT(new_version);
		sent[node[n].epoch].value[new_version] = new_value
	fi
}

/* W3 */
inline order(n, o) {
	CLAIM(node[n].version < VERSIONS, "limit: more VERSIONS are needed\n");
	writer = o;
	new_version = node[n].version + 1;
	new_value = WRITTEN(o, new_version) | (IS_ADD(o) -> node[n].value : 0);
	apply(n);
	record(n);
	hand(n)
}

/* W2, W5 at the head. A BUSY answer is not sent again: the client retries anyway. */
inline receive_write(n, o) {
	if
#ifdef WITHOUT_W2
	:: node[n].version == VERSIONS     /* nothing else would end such a world */
#else
	:: node[n].session[SESSION(o)].op > o
	:: node[n].session[SESSION(o)].op == o ->
		new_version = node[n].session[SESSION(o)].version;
		new_value = node[n].session[SESSION(o)].value;
		hand(n)
#endif
	:: else ->
		if
#ifndef WITHOUT_W5
		:: IS_ADD(o) && !CLEAN(n)
#endif
		:: else -> order(n, o)
		fi
	fi
}

/* W6 */
inline receive_update(n, version_received) {
	new_version = version_received;
	new_value = sent[node[n].epoch].value[new_version];
	writer = WRITER(new_value, new_version);
	if
	:: new_version > node[n].version -> apply(n)
	:: else
	fi;
	if
	:: writer > node[n].session[SESSION(writer)].op -> record(n)
	:: else
	fi;
	hand(n)
}

/* W8 */
inline receive_ack(n, version_received) {
	if
#ifdef WITHOUT_W8
	:: true -> node[n].committed = node[n].version
#else
	:: version_received <= node[n].version && version_received > node[n].committed -> node[n].committed = version_received
	:: else
#endif
	fi
}

/* W7, relayed: an ACK that goes up the chain; the head answers. */
inline receive_relay(n, version_received) {
	if
	:: version_received <= node[n].version ->
		receive_ack(n, version_received);
		if
		:: IS_HEAD(n) ->
			new_version = version_received;
			new_value = sent[node[n].epoch].value[new_version];
			answer()
		:: else ->
			next = LAST(BEFORE(n, CHAIN_OF(n)));
			sent[node[n].epoch].relay[next] = sent[node[n].epoch].relay[next] | BIT(version_received)
		fi
	:: else
	fi
}

/* ---- reads --------------------------------------------------------------------------------------------------------- */

/* R4 */
#ifdef WITHOUT_R4
#define MAY_READ(n) (node[n].epoch != 0 && !node[n].learner)
#else
#define MAY_READ(n) (node[n].lease && !node[n].learner)
#endif

#ifdef WITHOUT_R1
#define TAIL_ANSWERS(n) IS_TAIL(n)
#else
#define TAIL_ANSWERS(n) (IS_TAIL(n) && !node[n].frozen)
#endif

/* R1. A forwarded read (R2) may return the same as a read that came to the tail directly. */
inline read(n) {
	CLAIM(node[n].version >= seen, "violated: a read returned less than had been seen\n");
	new_version = node[n].version;
	new_value = node[n].value;
	see()
}

/* ---- messages ------------------------------------------------------------------------------------------------------ */

/* A copy of a write may arrive in any epoch in which its client waited (W1, W10). */
#define WRITE_ARRIVES(n, o) (ACTIVE(n) && IS_HEAD(n) && write[o].begun && (write[o].done == 0 || node[n].epoch <= write[o].done))

/* A10: messages of the chain arrive only where their epoch, their sender and the state of the shard let them in. */
#define UPDATE_ARRIVES(n, i) (ACTIVE(n) && (sent[node[n].epoch].update[n] & BIT(i)))
#define ACK_ARRIVES(n, i) (ACTIVE(n) && !IS_TAIL(n) && (sent[node[n].epoch].ack & BIT(i)))
#define RELAY_ARRIVES(n, i) (ACTIVE(n) && !IS_TAIL(n) && (sent[node[n].epoch].relay[n] & BIT(i)))

#define ON_WRITE(o)  :: d_step { WRITE_ARRIVES(me, o) -> printf("node %d, epoch %d: write %d arrives\n", me, node[me].epoch, o); receive_write(me, o) }
#define ON_UPDATE(i) :: d_step { UPDATE_ARRIVES(me, i) -> printf("node %d, epoch %d: UPDATE %d arrives\n", me, node[me].epoch, i); receive_update(me, i) }
#define ON_ACK(i)    :: d_step { ACK_ARRIVES(me, i) -> printf("node %d, epoch %d: ACK %d arrives\n", me, node[me].epoch, i); receive_ack(me, i) }
#define ON_RELAY(i)  :: d_step { RELAY_ARRIVES(me, i) -> printf("node %d, epoch %d: RELAY %d arrives\n", me, node[me].epoch, i); receive_relay(me, i) }

proctype Node(byte me) {
end:	do
	ON_WRITE(1)
#if OPS > 1
	ON_WRITE(2)
#endif
#if OPS > 2
	ON_WRITE(3)
#endif
	ON_UPDATE(1) ON_UPDATE(2) ON_UPDATE(3) ON_UPDATE(4)
	ON_ACK(1) ON_ACK(2) ON_ACK(3) ON_ACK(4)
#if VERSIONS > 4
	ON_UPDATE(5) ON_ACK(5)
#endif
#ifdef RELAY
	ON_RELAY(1) ON_RELAY(2) ON_RELAY(3) ON_RELAY(4)
#endif
	:: d_step { MAY_READ(me) && (CLEAN(me) || TAIL_ANSWERS(me)) ->
		printf("node %d, epoch %d: a read returns version %d\n", me, node[me].epoch, node[me].version);
		read(me)
	}
	od
}
