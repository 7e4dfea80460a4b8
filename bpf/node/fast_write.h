/* SPDX-License-Identifier: GPL-2.0 */
/* Writes on the fast path: W2 to W4 at the head, W6 to W8 behind it. */
#ifndef NQ_FAST_WRITE_H
#define NQ_FAST_WRITE_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "fast.h"
#include "lock.h"
#include "message.h"
#include "objects.h"
#include "packet.h"
#include "state.h"
#include "tables.h"
#include "update.h"
#include "wire.gen.h"
#include "write.h"

/* Stores a value that is not short; 0 if it is longer than a cell. */
static __noinline int store_long_value(struct xdp_md *ctx, __u32 at, struct nq_object *o, __u32 n)
{
	return o && !load_bytes(ctx, at, o->value, n, nq_cell_bytes);
}

/* Stores the value of the message, whose object is locked. */
static __always_inline int apply_fast(struct fast *p, const __u32 *w, struct nq_object *o, __u64 version)
{
	struct nq_load *load = load_of(shard_of(p));
	__u32 n = p->value_bytes;

	if (n == SHORT_VALUE_BYTES) {
		if ((void *)(w + CHAIN_WORDS + SHORT_VALUE_BYTES / 4) > end_of(p->ctx))
			return 0;
		*(__u64 *)o->value = long_at(w + CHAIN_WORDS);
		*(__u64 *)(o->value + 8) = long_at(w + CHAIN_WORDS + 2);
	} else if (!store_long_value(p->ctx, p->at + NQ_CHAIN_BYTES, o, n)) {
		return 0;
	}
	o->value_sum = fold(p->value_sum);
	set_version_locked(o, version, n, p->client_op == NQ_OP_DELETE);
	o->writes++;
	if (load)
		load->writes++;
	return 1;
}

/* The digest of a value that is not short. */
static __noinline __u64 digest_long(struct xdp_md *ctx, __u32 at, __be64 operand, __u32 n)
{
	__u32 zero = 0;
	struct nq_work *w = bpf_map_lookup_elem(&nq_works, &zero);

	if (!w || (n && load_bytes(ctx, at, w->in_bytes + NQ_CHAIN_BYTES, n, NQ_MAX_VALUE_BYTES)))
		return 0;
	return digest_value(w, operand, n);
}

static __always_inline __u64 digest_fast(struct fast *p, const __u32 *w)
{
	__be64 operand = long_at(w + WORD_OPERAND);
	__u64 h = mix(SHORT_VALUE_BYTES, bpf_be64_to_cpu(operand));

	if (p->value_bytes != SHORT_VALUE_BYTES || (void *)(w + CHAIN_WORDS + SHORT_VALUE_BYTES / 4) > end_of(p->ctx))
		return digest_long(p->ctx, p->at + NQ_CHAIN_BYTES, operand, p->value_bytes);
	h = mix(h, little(long_at(w + CHAIN_WORDS)));
	return mix(h, little(long_at(w + CHAIN_WORDS + 2))) ?: 1;
}

static __always_inline void record_fast(struct fast *p, const __u32 *w, struct nq_session *entry, __u64 seq,
					__u64 version)
{
	entry->seq = seq;
	entry->version = version;
	entry->result = has_digest(bpf_be64_to_cpu(long_at(w + WORD_OPERAND)), version) ? digest_fast(p, w) : 0;
	entry->key_lo = long_at(w + WORD_KEY + 2);
	entry->op = p->client_op;
	entry->status = NQ_STATUS_OK;
}

/* W3 and W4 with session and object locked. */
static __always_inline enum way order_fast_locked(struct fast *p, __u32 *w, struct nq_session *entry,
						  struct nq_object *o, __u64 seq, int slotted)
{
	__u64 version = next_version(p->c, o);

	if (p->op == NQ_OP_CAS) {
		__u64 expected = bpf_be64_to_cpu(long_at(w + WORD_OPERAND));

		if (!is_committed(o) && !is_tail(p->c))
			return ask_single(p, slotted);
		if (!cas_matches(o, expected))
			return ask_single(p, slotted);
	}
	if (!apply_fast(p, w, o, version))
		return WAY_NONE;
	record_fast(p, w, entry, seq, version);
	count(p->op, NQ_OUTCOME_ORDERED);
	if (is_tail(p->c)) {
		commit_locked(o, version, p->c->epoch);
		return reply_fast(p, w, NQ_STATUS_OK, version);
	}
	follow_on(p, w, NQ_OP_UPDATE);
	version = bpf_cpu_to_be64(version);
	set_word(p, w, WORD_VERSION, version);
	set_word(p, w, WORD_VERSION + 1, version >> 32);
	set_word(p, w, WORD_CLIENT + 2, bpf_htonl(0xffff));
	set_word(p, w, WORD_CLIENT + 3, p->client_addr);
	set_word(p, w, WORD_PORT, pair(p->client_port, bpf_htons((__u16)p->client_op << 8)));
	seal_chain(p, w, p->value_bytes);
	return WAY_AFTER;
}

/* The head's part with the session locked: W2, W3. o may be 0. */
static __always_inline enum way order_fast(struct fast *p, __u32 *w, struct nq_session *entry, struct nq_object *o,
					   int slotted)
{
	__u64 seq = bpf_be64_to_cpu(long_at(w + WORD_SEQ));
	enum no_object why;
	enum way way;

	if (entry->session != long_at(w + WORD_SESSION))
		return drop_fast(p, NQ_OUTCOME_CONTENDED);
	if (seq < entry->seq)
		return drop_fast(p, NQ_OUTCOME_OLD_SEQ);
	if (seq == entry->seq)
		return ask_single(p, slotted);
	if (!o && p->op == NQ_OP_CAS && long_at(w + WORD_OPERAND))
		return ask_single(p, slotted);
	if (!o)
		o = new_object(w + WORD_KEY, &why);
	if (!o)
		return ask_single(p, slotted);
	if (!lock_object(o, w + WORD_KEY))
		return drop_fast(p, NQ_OUTCOME_CONTENDED);
	way = order_fast_locked(p, w, entry, o, seq, slotted);
	unlock(&o->seq);
	return way;
}

static __always_inline struct nq_session *session_of(struct fast *p, const __u32 *w, int head)
{
	struct nq_session_key key = {.session = long_at(w + WORD_SESSION), .shard = shard_of(p)};
	struct nq_session *entry = bpf_map_lookup_elem(&nq_sessions, &key);

	return entry ? entry : new_session(&key, owner_of(p->client_addr), head, 0);
}

/* A client's write at the head of a working chain. */
static __always_inline enum way write_fast(struct fast *p, __u32 *w, int slotted)
{
	struct nq_object *o;
	struct nq_session *entry;
	enum way way;

	if (p->value_bytes > nq_cell_bytes || w[WORD_EPOCH] != epoch_of(p) || p->c->state != NQ_STATE_ACTIVE ||
	    p->c->self)
		return ask_single(p, slotted);
	entry = session_of(p, w, 1);
	if (!entry)
		return ask_single(p, slotted);
	o = find_object(w + WORD_KEY); /* here, because no load of it passes the lock */
	if (!lock(&entry->lock))
		return drop_fast(p, NQ_OUTCOME_CONTENDED);
	way = order_fast(p, w, entry, o, slotted);
	release_session(entry, shard_of(p));
	return way;
}

/* W6 and W7 with session and object locked. o may be 0 (G3). */
static __always_inline enum way update_fast_locked(struct fast *p, __u32 *w, struct nq_session *entry,
						   struct nq_object *o)
{
	__u64 version = bpf_be64_to_cpu(long_at(w + WORD_VERSION)), seq = bpf_be64_to_cpu(long_at(w + WORD_SEQ));
	__u32 outcome = NQ_OUTCOME_STALE;

	if (o && version > o->version && !is_late(p->c, version)) {
		if (!apply_fast(p, w, o, version))
			return WAY_NONE;
		outcome = is_tail(p->c) ? NQ_OUTCOME_COMMITTED : NQ_OUTCOME_APPLIED;
	}
	if (seq > entry->seq)
		record_fast(p, w, entry, seq, version);
	count(p->op, outcome);
	if (!is_tail(p->c)) {
		follow_on(p, w, NQ_OP_UPDATE);
		seal_chain(p, w, p->value_bytes);
		return WAY_AFTER;
	}
	if (o)
		commit_locked(o, o->version, p->c->epoch);
	follow_on(p, w, NQ_OP_RELAY);
	seal_chain(p, w, 0);
	return WAY_BEFORE;
}

static __always_inline enum way update_fast(struct fast *p, __u32 *w)
{
	struct nq_session *entry;
	struct nq_object *o;
	enum no_object why = NO_CELL;
	enum way way;
	int late = is_late(p->c, bpf_be64_to_cpu(long_at(w + WORD_VERSION)));

	if (p->value_bytes > nq_cell_bytes)
		return drop_fast(p, NQ_OUTCOME_TOO_LARGE);
	entry = session_of(p, w, 0);
	if (!entry)
		return drop_fast(p, NQ_OUTCOME_FULL);
	o = find_object(w + WORD_KEY);
	if (!o && !late)
		o = new_object(w + WORD_KEY, &why);
	if (!lock(&entry->lock))
		return drop_fast(p, NQ_OUTCOME_CONTENDED);
	if (entry->session != long_at(w + WORD_SESSION)) {
		way = drop_fast(p, NQ_OUTCOME_CONTENDED);
	} else if (!o && !late) {
		way = drop_fast(p, why == NO_CELL ? NQ_OUTCOME_FULL : NQ_OUTCOME_CONTENDED);
	} else if (!o || lock_object(o, w + WORD_KEY)) {
		way = update_fast_locked(p, w, entry, o);
		if (o)
			unlock(&o->seq);
	} else {
		way = drop_fast(p, NQ_OUTCOME_CONTENDED);
	}
	release_session(entry, shard_of(p));
	return way;
}

/* W8 for an ACK on its way up. */
static __always_inline enum way relay_fast(struct fast *p, __u32 *w)
{
	__u64 version = bpf_be64_to_cpu(long_at(w + WORD_VERSION));
	__u32 outcome = acknowledge(w + WORD_KEY, version, p->c);

	count(p->op, outcome);
	if (outcome == NQ_OUTCOME_AHEAD || outcome == NQ_OUTCOME_CONTENDED)
		return WAY_NONE;
	if (!p->c->self)
		return reply_fast(p, w, NQ_STATUS_OK, version);
	follow_on(p, w, NQ_OP_RELAY);
	seal_chain(p, w, 0);
	return WAY_BEFORE;
}

/* A10 for UPDATE and RELAY, then W6 to W8. */
static __always_inline enum way from_chain_fast(struct fast *p, __u32 *w)
{
	if (w[WORD_EPOCH] != epoch_of(p))
		return drop_fast(p, NQ_OUTCOME_OTHER_EPOCH);
	if (p->c->state != NQ_STATE_ACTIVE)
		return drop_fast(p, NQ_OUTCOME_INACTIVE);
	if (p->op == NQ_OP_UPDATE) {
		if (!p->c->self || !comes_from(p, p->c->self - 1))
			return drop_fast(p, NQ_OUTCOME_STRANGER);
		return update_fast(p, w);
	}
	if (is_tail(p->c) || !comes_from(p, p->c->self + 1))
		return drop_fast(p, NQ_OUTCOME_STRANGER);
	return relay_fast(p, w);
}

#endif
