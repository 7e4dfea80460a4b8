/* SPDX-License-Identifier: GPL-2.0 */
/* Messages between members of a chain: W6 to W9. */
#ifndef NQ_UPDATE_H
#define NQ_UPDATE_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "lock.h"
#include "message.h"
#include "objects.h"
#include "state.h"
#include "tables.h"
#include "wire.gen.h"
#include "write.h"

/* W6 and W7 with session and object locked: apply iff newer, record iff newer, pass on in every case. o may be 0 (G3). */
static __noinline int update_locked(struct xdp_md *ctx, struct nq_work *w, struct nq_chain_config *c,
				    struct nq_session *entry, struct nq_object *o)
{
	__u64 result = 0;
	__u32 outcome = NQ_OUTCOME_STALE;

	w->number = bpf_be64_to_cpu(w->in.chain.version);
	if (o && w->number > o->version && !is_late(c, w->number)) {
		apply_locked(ctx, w, o, w->number, 0);
		outcome = w->is_tail ? NQ_OUTCOME_COMMITTED : NQ_OUTCOME_APPLIED;
	}
	if (w->client_op == NQ_OP_ADD)
		result = bpf_be64_to_cpu(*(__be64 *)(w->in_bytes + NQ_CHAIN_BYTES));
	if (bpf_be64_to_cpu(w->in.chain.seq) > entry->seq)
		record(w, entry, w->number, result, NQ_STATUS_OK);
	count(w->op, outcome);
	if (!w->is_tail)
		return send_update(ctx, w, c, o, VALUE_PACKET);
	w->committed = w->number;
	if (o) {
		commit_locked(o, o->version, c->epoch);
		w->committed = committed_of(o);
	}
	return commit_in_chain(ctx, w, c);
}

static __noinline int update(struct xdp_md *ctx, struct nq_work *w, struct nq_chain_config *c)
{
	struct nq_object *o;
	struct nq_session *entry;
	enum no_object no_object = NO_CELL;
	enum no_session why;
	int action, late = is_late(c, bpf_be64_to_cpu(w->in.chain.version));

	if (w->value_bytes > nq_cell_bytes)
		return drop(w->op, NQ_OUTCOME_TOO_LARGE);
	entry = own_session(w, 0, &why);
	if (!entry)
		return drop(w->op, why == NO_ROOM ? NQ_OUTCOME_FULL : NQ_OUTCOME_CONTENDED);
	o = find_object(&w->in.base.key_hi);
	if (!o && !late)
		o = new_object(&w->in.base.key_hi, &no_object);
	if (!lock(&entry->lock))
		return drop(w->op, NQ_OUTCOME_CONTENDED);
	if (entry->session != w->in.chain.session) {
		action = drop(w->op, NQ_OUTCOME_CONTENDED);
	} else if (!o && late) {
		action = update_locked(ctx, w, c, entry, 0);
	} else if (!o) {
		action = drop(w->op, no_object == NO_CELL ? NQ_OUTCOME_FULL : NQ_OUTCOME_CONTENDED);
	} else if (lock_object(o, &w->in.base.key_hi)) {
		action = update_locked(ctx, w, c, entry, o);
		unlock(&o->seq);
	} else {
		action = drop(w->op, NQ_OUTCOME_CONTENDED);
	}
	release_session(entry, w->shard);
	return action;
}

/* W8: applies an ACK of version to the object; an outcome. */
static __always_inline __u32 acknowledge(const void *key, __u64 version, const struct nq_chain_config *c)
{
	struct nq_object *o = find_object(key);
	__u32 outcome = NQ_OUTCOME_STALE;

	if (!o)
		return is_late(c, version) ? NQ_OUTCOME_STALE : NQ_OUTCOME_AHEAD;
	if (!lock_object(o, key))
		return NQ_OUTCOME_CONTENDED;
	if (nq_without & NQ_RULE_W8) {
		commit_locked(o, o->version, c->epoch);
		outcome = NQ_OUTCOME_ACKED;
	} else if (version > o->version) {
		outcome = NQ_OUTCOME_AHEAD;
	} else if (version > committed_of(o)) {
		commit_locked(o, version, c->epoch);
		outcome = NQ_OUTCOME_ACKED;
	}
	unlock(&o->seq);
	return outcome;
}

/* An ACK on its way up: the head answers the client. */
static __noinline int relay(struct xdp_md *ctx, struct nq_work *w, struct nq_chain_config *c)
{
	struct nq_member *to = &c->members[(c->self - 1) & (NQ_MAX_CHAIN - 1)];
	__u64 version = bpf_be64_to_cpu(w->in.chain.version);
	__u32 outcome = acknowledge(&w->in.base.key_hi, version, c);
	__be32 addr = to->addr;
	__be16 port = to->port;

	count(w->op, outcome);
	if (outcome == NQ_OUTCOME_AHEAD || outcome == NQ_OUTCOME_CONTENDED)
		return XDP_DROP;
	if (!c->self) {
		if (!w->value_bytes)
			return answer(ctx, w, NQ_STATUS_OK, version, bpf_htonl(c->epoch));
		w->counter = bpf_be64_to_cpu(*(__be64 *)(w->in_bytes + NQ_CHAIN_BYTES));
		return answer_counter(ctx, w, version, bpf_htonl(c->epoch));
	}
	begin(w, NQ_OP_RELAY, 0, 0, bpf_htonl(c->epoch));
	begin_chain(w, version);
	w->out_value_sum = w->value_sum;
	if (put_chain(ctx, w, w->value_bytes))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	return to_node(w, addr, port, NQ_CHAIN_BYTES + w->value_bytes);
}

/* W9: the tail repeats its ACK to the node that asks, or sends the one that the tail before it could not (C2). */
static __noinline int probe(struct xdp_md *ctx, struct nq_work *w, struct nq_chain_config *c)
{
	struct nq_object *o;
	__u64 committed = 0;

	if (!w->is_tail)
		return drop(w->op, NQ_OUTCOME_MALFORMED);
	o = find_object(&w->in.base.key_hi);
	if (o) {
		if (!lock_object(o, &w->in.base.key_hi))
			return drop(w->op, NQ_OUTCOME_CONTENDED);
		committed = o->version;
		commit_locked(o, committed, c->epoch);
		unlock(&o->seq);
	} else if (is_late(c, bpf_be64_to_cpu(w->in_short.version.version))) { /* collected here */
		committed = bpf_be64_to_cpu(w->in_short.version.version);
	}
	count(w->op, NQ_OUTCOME_PROBED);
	begin(w, NQ_OP_ACK, 0, 0, bpf_htonl(c->epoch));
	w->out_short.version.version = bpf_cpu_to_be64(committed);
	w->out_value_sum = 0;
	if (put_short(ctx, w, 0))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	return to_node(w, w->from_addr, w->from_port, NQ_VERSION_BYTES);
}

static __always_inline int is_from(struct nq_work *w, const struct nq_member *m)
{
	return w->from_addr == m->addr && w->from_port == m->port;
}

/* Reports whether the sender is another member of the chain. A sender with this node's address is not. */
static __always_inline int is_other(struct nq_work *w, const struct nq_chain_config *c)
{
	for (int i = 0; i < NQ_MAX_CHAIN; i++)
		if (i < c->length && i != c->self && is_from(w, &c->members[i]))
			return 1;
	return 0;
}

/* Checks the conditions of every chain message and calls its handler. */
static __noinline int from_chain(struct xdp_md *ctx, struct nq_work *w, struct nq_chain_config *c)
{
	__u32 before = (c->self - 1) & (NQ_MAX_CHAIN - 1), after = (c->self + 1) & (NQ_MAX_CHAIN - 1);
	__u32 last = (c->length - 1) & (NQ_MAX_CHAIN - 1);
	__u32 outcome;

	if (w->in.base.epoch != bpf_htonl(c->epoch))
		return drop(w->op, NQ_OUTCOME_OTHER_EPOCH);
	if (c->state != NQ_STATE_ACTIVE)
		return drop(w->op, NQ_OUTCOME_INACTIVE);
	switch (w->op) {
	case NQ_OP_UPDATE:
		if (!c->self || !is_from(w, &c->members[before]))
			return drop(w->op, NQ_OUTCOME_STRANGER);
		return update(ctx, w, c);
	case NQ_OP_ACK:
		if (w->is_tail || !is_from(w, &c->members[last]))
			return drop(w->op, NQ_OUTCOME_STRANGER);
		outcome = acknowledge(&w->in.base.key_hi, bpf_be64_to_cpu(w->in_short.version.version), c);
		return drop(w->op, outcome);
	case NQ_OP_RELAY:
		if (w->is_tail || !is_from(w, &c->members[after]))
			return drop(w->op, NQ_OUTCOME_STRANGER);
		return relay(ctx, w, c);
	}
	if (!is_other(w, c))
		return drop(w->op, NQ_OUTCOME_STRANGER);
	return probe(ctx, w, c);
}

#endif
