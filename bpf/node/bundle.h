/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bundles: B1 to B5. Each message is replaced in its slot by the message that the node would send for a single
 * message. Then the whole frame goes on, at its old length.
 */
#ifndef NQ_BUNDLE_H
#define NQ_BUNDLE_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "fast.h"
#include "fast_read.h"
#include "fast_write.h"
#include "fib.h"
#include "lock.h"
#include "message.h"
#include "objects.h"
#include "packet.h"
#include "read.h"
#include "route.h"
#include "state.h"
#include "tables.h"
#include "wire.gen.h"

#define NQ_MIN_SLOT_BYTES (NQ_SLOT_BYTES + NQ_VERSION_BYTES)

/* A bundle on its way through the slots. Numbers only: the verifier checks handle_slot() by itself. */
struct bundle {
	__u64 now_ns; /* 0 until it is first needed */
	__u32 slot_bytes;
	__u32 at;	    /* where the message in hand begins in the frame */
	__u32 bytes;	    /* its length; at the end, that of the outgoing message */
	__u32 ways;	    /* where messages so far go, a bit each of enum way */
	__u32 chain;	    /* number + 1 in nq_chains of the bundle's chain (B4); 0 before the first message */
	__be32 from_addr;   /* sender of the frame */
	__be32 client_addr; /* receiver of the replies */
	__be16 from_port;
	__be16 client_port;
};

/* The message in hand. */
struct slotted {
	struct fast p;
	struct bundle *b;
	__u32 own; /* number + 1 in nq_chains of its chain */
};

static __always_inline __u32 room_of(const struct bundle *b)
{
	return b->slot_bytes - NQ_SLOT_BYTES;
}

static __always_inline int same_members(const struct nq_chain_config *a, const struct nq_chain_config *b)
{
	const __u64 *x = (const void *)a->members, *y = (const void *)b->members;
	__u64 differ = a->length ^ b->length;

	if (a->self != b->self)
		return 0;
	for (int i = 0; i < NQ_MAX_CHAIN; i++)
		differ |= x[i] ^ y[i];
	return !differ;
}

/* B4: may the message in hand go to another member of its chain? The first message of a bundle decides for all. */
static __always_inline int in_chain(struct slotted *m)
{
	struct nq_chain_config *c;
	__u32 number = m->b->chain - 1;

	if (m->b->chain == m->own)
		return 1;
	c = bpf_map_lookup_elem(&nq_chains, &number);
	return c && same_members(c, m->p.c);
}

/* A9 for the message in hand, whose format is right. */
static __always_inline int find_own_chain(struct slotted *m, const __u32 *w)
{
	if (!find_chain(&m->p, w))
		return 0;
	m->own = m->p.chain + 1;
	if (!m->b->chain)
		m->b->chain = m->own;
	return 1;
}

/* Writes an object's value at this place of the frame; the object is locked, or looked at again afterwards. */
static __noinline int put_value(struct xdp_md *ctx, __u32 at, struct nq_object *o, __u32 n)
{
	return o && !store_bytes(ctx, at, o->value, n, nq_cell_bytes);
}

/* Answers from the object, which is locked and clean. */
static __always_inline enum way answer_locked(struct slotted *m, __u32 *w, struct nq_object *o, __u32 outcome)
{
	int absent = is_absent(o);
	__u32 n = absent ? 0 : value_bytes_of(o);

	if (NQ_VERSION_BYTES + n > room_of(m->b))
		return ask_single(&m->p, 1);
	reply_fast(&m->p, w, absent ? NQ_STATUS_NOT_FOUND : NQ_STATUS_OK, o->version);
	if (n) {
		seal_reply(&m->p, w, n, o->value_sum);
		if (!put_value(m->p.ctx, m->p.at + NQ_VERSION_BYTES, o, n))
			return WAY_NONE;
	}
	o->reads++;
	return count_answered(&m->p, absent ? NQ_OUTCOME_ANSWERED_ABSENT : outcome);
}

/*
 * Answers a READ from a snapshot of a clean object, without its lock: one that many readers take would look like a writer
 * to all others. WAY_SLOW if a writer came, with the READ as it was: the value stands behind it.
 */
static __always_inline enum way answer_long(struct slotted *m, __u32 *w, struct nq_object *o, const struct snapshot *s)
{
	if (!put_value(m->p.ctx, m->p.at + NQ_VERSION_BYTES, o, s->value_bytes))
		return WAY_SLOW;
	if (was_disturbed(&o->seq, s->seq))
		return WAY_SLOW;
	reply_fast(&m->p, w, NQ_STATUS_OK, s->version);
	seal_reply(&m->p, w, s->value_bytes, s->value_sum);
	o->reads++; /* as above */
	return count_answered(&m->p, NQ_OUTCOME_ANSWERED_CLEAN);
}

/* Passes a read on to the tail, if that is possible in a bundle. */
static __always_inline enum way forward_slot(struct slotted *m)
{
	__u32 *w = words_of(&m->p, NQ_CHAIN_BYTES);

	if (room_of(m->b) < NQ_CHAIN_BYTES || !w || !in_chain(m))
		return ask_single(&m->p, 1);
	return forward_fast(&m->p, w);
}

/* R1 and R2 in a slot. */
static __noinline enum way read_slot(struct slotted *m)
{
	__u32 *w = words_of(&m->p, NQ_VERSION_BYTES), outcome;
	int may = permitted_at(m->p.live, &m->b->now_ns), clean;
	struct snapshot s;
	struct nq_object *o;
	enum way way;

	if (!w)
		return WAY_NONE;
	outcome = m->p.op == NQ_OP_READ ? NQ_OUTCOME_ANSWERED_CLEAN : NQ_OUTCOME_ANSWERED_TAIL;
	o = find_object(w + WORD_KEY);
	if (!o && may) {
		reply_fast(&m->p, w, NQ_STATUS_NOT_FOUND, 0);
		return count_answered(&m->p, NQ_OUTCOME_ANSWERED_ABSENT);
	}
	if (o && may && take_snapshot(o, w + WORD_KEY, &s)) {
		if (NQ_VERSION_BYTES + s.value_bytes > room_of(m->b))
			return ask_single(&m->p, 1);
		if (s.value_bytes == SHORT_VALUE_BYTES)
			return answer_short(&m->p, w, o, &s, outcome);
		way = m->p.op == NQ_OP_READ ? answer_long(m, w, o, &s) : WAY_SLOW;
		if (way != WAY_SLOW)
			return way;
		w = words_of(&m->p, NQ_VERSION_BYTES);
		if (!w)
			return WAY_NONE;
	}
	if (o && m->p.op == NQ_OP_READ && !is_tail(m->p.c) && !is_committed(o))
		return forward_slot(m); /* if it has become clean meanwhile, the tail answers as well */
	if (o) {
		if (!lock_object(o, w + WORD_KEY))
			return drop_fast(&m->p, NQ_OUTCOME_CONTENDED);
		clean = is_clean(m->p.c, o);
		way = may && clean ? answer_locked(m, w, o, outcome) : WAY_SLOW;
		unlock(&o->seq);
		if (way != WAY_SLOW)
			return way;
	}
	if (!is_tail(m->p.c))
		return forward_slot(m);
	w = words_of(&m->p, NQ_VERSION_BYTES);
	if (!w)
		return WAY_NONE;
	count(m->p.op, may ? NQ_OUTCOME_BUSY : NQ_OUTCOME_NO_LEASE);
	return reply_fast(&m->p, w, NQ_STATUS_BUSY, 0);
}

static __always_inline void note_client(struct bundle *b, __be32 addr, __be16 port)
{
	b->client_addr = addr;
	b->client_port = port;
}

/*
 * B5: notes the client that the message in hand names, whose chain is found, if a member of that chain sent it. Most bundles name
 * one client, so most messages need no look at the members.
 */
static __always_inline void note_named(struct slotted *m, __be32 addr, __be16 port)
{
	if ((m->b->client_addr != addr || m->b->client_port != port) && is_member(&m->p))
		note_client(m->b, addr, port);
}

/* Messages that are accepted but do not travel in a bundle, and messages that are not accepted (B3). */
static __noinline enum way refuse_slot(struct slotted *m)
{
	__u32 zero = 0, outcome, *words = words_of(&m->p, NQ_BASE_BYTES);
	struct nq_work *w = bpf_map_lookup_elem(&nq_works, &zero);
	struct nq_base *base = (void *)words;
	int chain_op;

	m->p.op = 0;
	if (!w || !words || m->p.bytes < NQ_BASE_BYTES)
		return drop_fast(&m->p, NQ_OUTCOME_TRUNCATED);
	if (base->magic != bpf_htons(NQ_MAGIC))
		return drop_fast(&m->p, NQ_OUTCOME_BAD_MAGIC);
	if (base->version != NQ_WIRE_VERSION)
		return drop_fast(&m->p, NQ_OUTCOME_BAD_VERSION);
	outcome = load_message(m->p.ctx, m->p.at, w, m->p.bytes, 0);
	if (outcome != ACCEPTED)
		return drop_fast(&m->p, outcome);
	m->p.op = w->op = w->in.base.op;
	outcome = decode(w, m->p.bytes);
	if (outcome != ACCEPTED)
		return drop_fast(&m->p, outcome);
	chain_op = w->op >= NQ_OP_FORWARD;
	if (bpf_ntohs(w->in.base.shard) > nq_shard_mask)
		return drop_fast(&m->p, NQ_OUTCOME_NOT_MINE);
	if (((__u32)bpf_be64_to_cpu(w->in.base.key_lo) & nq_shard_mask) != bpf_ntohs(w->in.base.shard))
		return drop_fast(&m->p, chain_op ? NQ_OUTCOME_MALFORMED : NQ_OUTCOME_BAD_REQUEST);
	words = words_of(&m->p, NQ_BASE_BYTES);
	if (!words)
		return WAY_NONE;
	if (!find_own_chain(m, words)) {
		if (chain_op)
			return drop_fast(&m->p, NQ_OUTCOME_NOT_MINE);
	} else if (chain_op) {
		int passed = w->op != NQ_OP_ACK && w->op != NQ_OP_PROBE;

		if (passed)
			note_named(m, w->in.chain.client_lo >> 32, w->in.chain.client_port);
		return drop_fast(&m->p, passed && !in_chain(m) ? NQ_OUTCOME_STRANGER : NQ_OUTCOME_MALFORMED);
	}
	return m->p.c ? ask_single(&m->p, 1) : WAY_NONE;
}

/* A message of the chain layout. */
static __always_inline enum way chain_slot(struct slotted *m, __u32 *w)
{
	struct fast *p = &m->p;

	p->client_op = p->op;
	if (is_fast_op(p->op)) {
		if (!is_fast_write(p, w) || !find_own_chain(m, w))
			return WAY_SLOW;
		return in_chain(m) ? write_fast(p, w, 1) : ask_single(p, 1);
	}
	if (p->op == NQ_OP_FORWARD ? !is_forwarded_read(p, w)
				   : (p->op != NQ_OP_UPDATE && p->op != NQ_OP_RELAY) || !is_fast_passed(p, w))
		return WAY_SLOW;
	if (!find_own_chain(m, w))
		return WAY_SLOW;
	note_named(m, p->client_addr, p->client_port);
	if (!in_chain(m))
		return drop_fast(p, NQ_OUTCOME_STRANGER);
	if (p->op != NQ_OP_FORWARD)
		return from_chain_fast(p, w);
	return is_member(p) ? read_slot(m) : drop_fast(p, NQ_OUTCOME_STRANGER);
}

/* The message in hand of a bundle; an enum way. Not static: the verifier checks it once, not once a slot. */
__noinline int handle_slot(struct xdp_md *ctx, struct bundle *b)
{
	struct slotted m = {.p.ctx = ctx, .b = b};
	enum way way = WAY_SLOW;
	__u32 *w;

	if (!b)
		return WAY_NONE;
	m.p.at = b->at;
	m.p.bytes = b->bytes;
	m.p.from_addr = m.p.client_addr = b->from_addr;
	m.p.from_port = m.p.client_port = b->from_port;
	w = words_of(&m.p, NQ_BASE_BYTES);
	if (!w)
		return WAY_NONE;
	m.p.op = ((__u8 *)w)[3];
	if (m.p.op == NQ_OP_REPLY && m.p.bytes >= NQ_VERSION_BYTES)
		return WAY_STAYS;
	if (m.p.op == NQ_OP_READ) {
		if (m.p.bytes == NQ_BASE_BYTES && folds_to_ones(sum_words(w, NQ_BASE_BYTES / 4)) && is_fast_base(w) &&
		    find_own_chain(&m, w))
			way = read_slot(&m);
	} else if (m.p.bytes >= NQ_CHAIN_BYTES) {
		w = sum_fast(&m.p);
		if (w && is_fast_base(w))
			way = chain_slot(&m, w);
	}
	if (way == WAY_SLOW)
		way = refuse_slot(&m);
	b->bytes = m.p.bytes;
	return way;
}

struct slots {
	struct xdp_md *ctx;
	struct bundle b;
	__u32 next; /* where the next slot begins in the frame */
	__u32 count;
};

/* Touches the object that the message of a slot is about: a first way through the slots. */
static long touch_next(__u32 i, struct slots *s)
{
	struct nq_base *base = data_of(s->ctx) + (s->next & 0x7ff) + NQ_SLOT_BYTES;

	if ((void *)(base + 1) > end_of(s->ctx))
		return 1;
	touch_object(&base->key_hi);
	s->next += s->b.slot_bytes;
	return 0;
}

static long next_slot(__u32 i, struct slots *s)
{
	struct nq_slot *slot = data_of(s->ctx) + (s->next & 0x7ff);
	__u32 way = WAY_NONE, n;

	if ((void *)(slot + 1) > end_of(s->ctx))
		return 1;
	n = bpf_ntohs(slot->length);
	s->b.at = s->next + NQ_SLOT_BYTES;
	s->b.bytes = n;
	if ((__u16)~slot->length != slot->check || n > room_of(&s->b))
		count(0, NQ_OUTCOME_TRUNCATED);
	else if (n)
		way = handle_slot(s->ctx, &s->b);
	slot = data_of(s->ctx) + (s->next & 0x7ff);
	if ((void *)(slot + 1) > end_of(s->ctx))
		return 1;
	s->next += s->b.slot_bytes;
	s->b.ways |= 1u << (way & 7);
	if (way == WAY_STAYS)
		return 0;
	slot->length = bpf_htons(way == WAY_NONE ? 0 : s->b.bytes);
	slot->check = ~slot->length;
	return 0;
}

/* B5 */
static __always_inline int send_bundle(struct xdp_md *ctx, struct bundle *b, __u32 message_bytes)
{
	__u32 number = b->chain - 1, to;
	struct nq_chain_config *c;

	if (b->ways & (1 << WAY_AFTER | 1 << WAY_TAIL | 1 << WAY_BEFORE)) {
		c = bpf_map_lookup_elem(&nq_chains, &number);
		if (!c)
			return XDP_DROP;
		to = c->self - 1;
		if (b->ways & 1 << WAY_AFTER)
			to = c->self + 1;
		else if (b->ways & 1 << WAY_TAIL)
			to = c->length - 1;
		to &= NQ_MAX_CHAIN - 1;
		return route(ctx, c->members[to].addr, c->members[to].port, message_bytes);
	}
	if (!(b->ways & (1 << WAY_CLIENT | 1 << WAY_STAYS)))
		return XDP_DROP;
	if (b->client_addr == b->from_addr && b->client_port == b->from_port) {
		if (!(b->ways & 1 << WAY_CLIENT)) /* two nodes would play ball with old replies */
			return XDP_DROP;
		return send_back(ctx, b->client_addr, b->client_port, message_bytes);
	}
	return route(ctx, b->client_addr, b->client_port, message_bytes);
}

/* B1 */
static __always_inline int is_sound(const struct nq_bundle *head, __u32 slot_bytes, __u32 message_bytes)
{
	return head->count && head->count <= NQ_MAX_SLOTS && !head->reserved && slot_bytes >= NQ_MIN_SLOT_BYTES &&
	       !(slot_bytes & 3) && message_bytes <= NQ_MAX_MESSAGE_BYTES &&
	       message_bytes == NQ_BUNDLE_BYTES + head->count * slot_bytes;
}

/* Handles a bundle; parse() has found the frame sound. */
static __always_inline int bundle(struct xdp_md *ctx)
{
	struct slots s = {.ctx = ctx, .next = NQ_L4_END + NQ_BUNDLE_BYTES};
	struct bundle *b = &s.b;
	struct frame *f = data_of(ctx);
	struct nq_bundle *head = (void *)(f + 1);
	__u32 message_bytes;

	if ((void *)(head + 1) > end_of(ctx))
		return XDP_DROP;
	message_bytes = bpf_ntohs(udp_of(f)->len) - sizeof(struct udphdr);
	b->slot_bytes = bpf_ntohs(head->slot_bytes);
	if (!is_sound(head, b->slot_bytes, message_bytes))
		return drop(NQ_OP_BUNDLE, NQ_OUTCOME_MALFORMED);
	b->from_addr = ip_of(f)->saddr;
	b->from_port = udp_of(f)->source;
	note_client(b, b->from_addr, b->from_port);
	s.count = head->count;
	if (s.count > 1)
		bpf_loop(s.count, touch_next, &s, 0);
	s.next = NQ_L4_END + NQ_BUNDLE_BYTES;
	bpf_loop(s.count, next_slot, &s, 0);
	return send_bundle(ctx, b, message_bytes);
}

#endif
