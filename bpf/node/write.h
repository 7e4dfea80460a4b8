/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Writes: W1 to W8. Locks are taken session first, then object. A function whose name ends in _locked is called with
 * the object's lock held and leaves it held.
 */
#ifndef NQ_WRITE_H
#define NQ_WRITE_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "contended.h"
#include "lock.h"
#include "message.h"
#include "objects.h"
#include "packet.h"
#include "read.h"
#include "state.h"
#include "tables.h"
#include "wire.gen.h"

#define NQ_COUNTER_BYTES 8

static __always_inline int may_apply(const struct nq_work *w, const struct nq_object *o)
{
	return w->value_bytes <= nq_cell_bytes && value_bytes_of(o) <= nq_cell_bytes;
}

/* Stores a version newer than the object's own: an ADD's result, or the value in the packet. */
static __always_inline void apply_locked(struct xdp_md *ctx, struct nq_work *w, struct nq_object *o, __u64 version,
					 int counter)
{
	struct nq_load *load = load_of(w->shard);
	__u32 n = w->value_bytes;

	if (counter) {
		__u64 value = bpf_cpu_to_be64(w->counter);

		*(__u64 *)o->value = value;
		o->value_sum = fold(sum_words(&value, 2));
		n = sizeof(value);
	} else if (n && !load_bytes(ctx, NQ_L4_END + NQ_CHAIN_BYTES, o->value, n, nq_cell_bytes)) {
		o->value_sum = w->value_sum;
	} else {
		n = 0;
		o->value_sum = 0;
	}
	set_version_locked(o, version, n, w->client_op == NQ_OP_DELETE);
	o->writes++;
	if (load)
		load->writes++;
}

/* counter is the new value of an ADD. */
static __always_inline void record(struct nq_work *w, struct nq_session *entry, __u64 version, __u64 counter,
				   __u8 status)
{
	entry->seq = bpf_be64_to_cpu(w->in.chain.seq);
	entry->version = version;
	if (w->client_op == NQ_OP_ADD)
		entry->result = counter;
	else if (status != NQ_STATUS_OK || has_digest(bpf_be64_to_cpu(w->in.chain.operand), version))
		entry->result = w->digest;
	else
		entry->result = 0;
	entry->key_lo = w->in.base.key_lo;
	entry->op = w->client_op;
	entry->status = status;
}

enum value_source { VALUE_PACKET, VALUE_COUNTER, VALUE_OBJECT };

/* Sends the write down the chain. */
static __noinline int send_update(struct xdp_md *ctx, struct nq_work *w, struct nq_chain_config *c, struct nq_object *o,
				  enum value_source source)
{
	struct nq_member *to = &c->members[(c->self + 1) & (NQ_MAX_CHAIN - 1)];
	__u64 counter = bpf_cpu_to_be64(w->counter);
	__be32 addr = to->addr;
	__be16 port = to->port;
	__u32 n = w->value_bytes;

	w->out_value_sum = w->value_sum;
	if (source == VALUE_COUNTER) {
		n = sizeof(counter);
		w->out_value_sum = fold(sum_words(&counter, 2));
	} else if (source == VALUE_OBJECT) {
		n = value_bytes_of(o);
		w->out_value_sum = o->value_sum;
	}
	begin(w, NQ_OP_UPDATE, 0, 0, bpf_htonl(c->epoch));
	begin_chain(w, w->number);
	if (put_chain(ctx, w, n))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	if (source == VALUE_COUNTER && bpf_xdp_store_bytes(ctx, NQ_L4_END + NQ_CHAIN_BYTES, &counter, sizeof(counter)))
		return XDP_DROP;
	if (source == VALUE_OBJECT && store_bytes(ctx, NQ_L4_END + NQ_CHAIN_BYTES, o->value, n, nq_cell_bytes))
		return XDP_DROP;
	return to_node(w, addr, port, NQ_CHAIN_BYTES + n);
}

/* W7 at a tail with others before it: answer and ACKs leave as clones, or a RELAY goes up. committed is set. */
static __always_inline int commit_in_chain(struct xdp_md *ctx, struct nq_work *w, struct nq_chain_config *c)
{
	__u32 n = w->client_op == NQ_OP_ADD ? NQ_COUNTER_BYTES : 0;

	if (!nq_relay)
		return THEN_CLONE;
	begin(w, NQ_OP_RELAY, 0, 0, bpf_htonl(c->epoch));
	begin_chain(w, w->number);
	w->out_value_sum = n ? w->value_sum : 0;
	if (put_chain(ctx, w, n))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	return to_node(w, w->from_addr, w->from_port, NQ_CHAIN_BYTES + n);
}

/* Gives a write that the head has ordered to the next node, or ends it if the head is alone. */
static __always_inline int hand_locked(struct xdp_md *ctx, struct nq_work *w, struct nq_chain_config *c,
				       struct nq_object *o, enum value_source source)
{
	if (!w->is_tail)
		return send_update(ctx, w, c, o, source);
	commit_locked(o, o->version, c->epoch);
	if (w->client_op == NQ_OP_ADD)
		return answer_counter(ctx, w, w->number, bpf_htonl(c->epoch));
	return answer(ctx, w, NQ_STATUS_OK, w->number, bpf_htonl(c->epoch));
}

/*
 * Tells why a CAS failed: version, and its value if the object still has it, the frame has room, and T7 lets it go. o is 0
 * if there was none, or if it was collected since (G4).
 */
static __always_inline int answer_cas_failed(struct xdp_md *ctx, struct nq_work *w, struct nq_object *o, __u64 version,
					     __be32 epoch)
{
	int action = XDP_PASS;

	if (!o && !version)
		return answer(ctx, w, NQ_STATUS_CAS_FAILED, 0, epoch);
	if (o && o->version == version)
		action = answer_object(ctx, w, o, NQ_STATUS_CAS_FAILED, epoch);
	if (action != XDP_PASS && action != THEN_LESS)
		return action;
	begin_reply(w, NQ_STATUS_CAS_FAILED, version, NQ_FLAG_NO_VALUE, epoch);
	if (put_short(ctx, w, 0))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	return to_client(w, NQ_VERSION_BYTES);
}

/* FULL: the write has no effect, and never will. */
static __always_inline int answer_full(struct xdp_md *ctx, struct nq_work *w, __u8 flags, __be32 epoch)
{
	begin_reply(w, NQ_STATUS_FULL, 0, NQ_FLAG_NO_VALUE | flags, epoch);
	if (put_short(ctx, w, 0))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	return to_client(w, NQ_VERSION_BYTES);
}

/* A write that has no effect, now or when a late copy of it arrives (W4). o may be 0, else it is locked. */
static __noinline int refuse(struct xdp_md *ctx, struct nq_work *w, struct nq_session *entry, struct nq_object *o,
			     __u8 status)
{
	struct nq_live *live = bpf_map_lookup_elem(&nq_live, &w->shard);

	if (!live)
		return XDP_DROP;
	if (!permitted(live)) {
		count(w->op, NQ_OUTCOME_NO_LEASE);
		return answer(ctx, w, NQ_STATUS_BUSY, 0, live->epoch);
	}
	record(w, entry, o ? o->version : 0, 0, status);
	count(w->op, status == NQ_STATUS_FULL ? NQ_OUTCOME_FULL : NQ_OUTCOME_REFUSED);
	if (o && status == NQ_STATUS_CAS_FAILED)
		return answer_cas_failed(ctx, w, o, o->version, live->epoch);
	if (status == NQ_STATUS_FULL)
		return answer_full(ctx, w, 0, live->epoch);
	return answer(ctx, w, status, o ? o->version : 0, live->epoch);
}

/* W2 for an equal seq whose first copy was refused. */
static __always_inline int repeat_refusal(struct xdp_md *ctx, struct nq_work *w, struct nq_live *live,
					  struct nq_session *entry, struct nq_object *o)
{
	if (!permitted(live)) {
		count(w->op, NQ_OUTCOME_NO_LEASE);
		return answer(ctx, w, NQ_STATUS_BUSY, 0, live->epoch);
	}
	count(w->op, NQ_OUTCOME_REPEATED);
	if (entry->status == NQ_STATUS_FULL)
		return answer_full(ctx, w, 0, live->epoch);
	if (entry->status != NQ_STATUS_CAS_FAILED)
		return answer(ctx, w, entry->status, entry->version, live->epoch);
	return answer_cas_failed(ctx, w, o, entry->version, live->epoch);
}

static __always_inline int bad_request(struct xdp_md *ctx, struct nq_work *w, __be32 epoch)
{
	count(w->op, NQ_OUTCOME_BAD_REQUEST);
	return answer(ctx, w, NQ_STATUS_BAD_REQUEST, 0, epoch);
}

/* Whether the write is the one that the session recorded. */
static __always_inline int is_retry(struct nq_work *w, struct nq_session *entry)
{
	if (entry->key_lo != w->in.base.key_lo || entry->op != w->client_op)
		return 0;
	return w->client_op == NQ_OP_ADD || !entry->result || entry->result == w->digest;
}

/* Answers a retry of a write whose version is at or below the bar: it is committed (G3). */
static __always_inline int repeat_late(struct xdp_md *ctx, struct nq_work *w, const struct nq_session *entry,
				       __be32 epoch)
{
	count(w->op, NQ_OUTCOME_REPEATED);
	w->counter = entry->result;
	if (w->client_op == NQ_OP_ADD)
		return answer_counter(ctx, w, entry->version, epoch);
	return answer(ctx, w, NQ_STATUS_OK, entry->version, epoch);
}

/* W2 for an equal seq: the version and result of the first copy, never new ones. o may be 0. */
static __noinline int repeat(struct xdp_md *ctx, struct nq_work *w, struct nq_chain_config *c, struct nq_session *entry,
			     struct nq_object *o)
{
	struct nq_live *live = bpf_map_lookup_elem(&nq_live, &w->shard);
	enum value_source source = VALUE_PACKET;

	if (!live)
		return XDP_DROP;
	if (!is_retry(w, entry))
		return bad_request(ctx, w, live->epoch);
	if (entry->status == NQ_STATUS_OK && is_late(c, entry->version))
		return repeat_late(ctx, w, entry, live->epoch);
	if (!o && entry->status == NQ_STATUS_OK)
		return bad_request(ctx, w, live->epoch);
	if (entry->status != NQ_STATUS_OK || !o)
		return repeat_refusal(ctx, w, live, entry, o);
	w->number = entry->version;
	w->counter = entry->result;
	if (w->client_op == NQ_OP_ADD)
		source = VALUE_COUNTER;
	if (o->version == entry->version)
		source = VALUE_OBJECT;
	count(w->op, NQ_OUTCOME_REPEATED);
	return hand_locked(ctx, w, c, o, source);
}

/* W3 to W5 on an existing object: a new version, unless CAS or ADD may not have one. */
static __noinline int order_locked(struct xdp_md *ctx, struct nq_work *w, struct nq_chain_config *c,
				   struct nq_session *entry, struct nq_object *o)
{
	struct nq_live *live = bpf_map_lookup_elem(&nq_live, &w->shard);
	__u64 operand = bpf_be64_to_cpu(w->in.chain.operand);
	int absent = is_absent(o);
	int add = w->client_op == NQ_OP_ADD;

	if (!live)
		return XDP_DROP;
	if (add || w->client_op == NQ_OP_CAS) {
		if (!is_clean(c, o) && !(nq_without & NQ_RULE_W5)) {
			count(w->op, NQ_OUTCOME_BUSY);
			note_contended_locked(w, o);
			return answer(ctx, w, NQ_STATUS_BUSY, 0, live->epoch);
		}
		if (!add && !cas_matches(o, operand))
			return refuse(ctx, w, entry, o, NQ_STATUS_CAS_FAILED);
		if (add && !absent && value_bytes_of(o) != NQ_COUNTER_BYTES)
			return refuse(ctx, w, entry, o, NQ_STATUS_BAD_REQUEST);
		w->counter = operand;
		if (!absent)
			w->counter += bpf_be64_to_cpu(*(__be64 *)o->value);
	}
	w->number = next_version(c, o);
	apply_locked(ctx, w, o, w->number, add);
	record(w, entry, w->number, add ? w->counter : 0, NQ_STATUS_OK);
	count(w->op, NQ_OUTCOME_ORDERED);
	return hand_locked(ctx, w, c, o, add ? VALUE_COUNTER : VALUE_PACKET);
}

/* The head's part, with the session locked: W2, then W3. */
static __noinline int order(struct xdp_md *ctx, struct nq_work *w, struct nq_chain_config *c, struct nq_session *entry)
{
	__u64 seq = bpf_be64_to_cpu(w->in.chain.seq);
	int again = !(nq_without & NQ_RULE_W2) && seq == entry->seq;
	enum no_object why = NO_CELL;
	struct nq_object *o;
	int action;

	if (!(nq_without & NQ_RULE_W2) && seq < entry->seq)
		return drop(w->op, NQ_OUTCOME_OLD_SEQ);
	o = find_object(&w->in.base.key_hi);
	if (!o && again)
		return repeat(ctx, w, c, entry, 0);
	if (!o && w->client_op == NQ_OP_CAS && w->in.chain.operand)
		return refuse(ctx, w, entry, 0, NQ_STATUS_CAS_FAILED);
	if (!o)
		o = new_object(&w->in.base.key_hi, &why);
	if (!o && why == NO_CELL)
		return refuse(ctx, w, entry, 0, NQ_STATUS_FULL);
	if (!o)
		return drop(w->op, NQ_OUTCOME_CONTENDED);
	if (!lock_object(o, &w->in.base.key_hi))
		return drop(w->op, NQ_OUTCOME_CONTENDED);
	if (again)
		action = repeat(ctx, w, c, entry, o);
	else
		action = order_locked(ctx, w, c, entry, o);
	unlock(&o->seq);
	return action;
}

/* W14: a write that cannot be recorded. */
static __noinline int unrecorded(struct xdp_md *ctx, struct nq_work *w, __be32 epoch, enum no_session why)
{
	if (why == CROWDED)
		return drop(w->op, NQ_OUTCOME_CONTENDED);
	if (why == NOT_YET) {
		count(w->op, NQ_OUTCOME_BUSY);
		return answer(ctx, w, NQ_STATUS_BUSY, 0, epoch);
	}
	note_refused(&w->session_key, owner_of(w->client_addr));
	count(w->op, NQ_OUTCOME_FULL);
	return answer_full(ctx, w, NQ_FLAG_SESSION, epoch);
}

/* A write of a client, or forwarded by another node. */
static __noinline int write(struct xdp_md *ctx, struct nq_work *w, struct nq_live *live, struct nq_chain_config *c)
{
	struct nq_session *entry;
	enum no_session why;
	int action;

	if (w->value_bytes > nq_cell_bytes) {
		count(w->op, NQ_OUTCOME_TOO_LARGE);
		return answer(ctx, w, NQ_STATUS_TOO_LARGE, 0, live->epoch);
	}
	if (w->in.base.epoch != live->epoch) {
		count(w->op, NQ_OUTCOME_NOT_MINE);
		return answer(ctx, w, NQ_STATUS_NOT_MINE, 0, live->epoch);
	}
	if (c->state != NQ_STATE_ACTIVE) {
		count(w->op, NQ_OUTCOME_BUSY);
		return answer(ctx, w, NQ_STATUS_BUSY, 0, live->epoch);
	}
	if (c->self)
		return pass(ctx, w, &c->members[0], live->epoch);
	entry = own_session(w, 1, &why);
	if (!entry)
		return unrecorded(ctx, w, live->epoch, why);
	if (!lock(&entry->lock))
		return drop(w->op, NQ_OUTCOME_CONTENDED);
	if (entry->session == w->in.chain.session)
		action = order(ctx, w, c, entry);
	else
		action = drop(w->op, NQ_OUTCOME_CONTENDED);
	release_session(entry, w->shard);
	return action;
}

#endif
