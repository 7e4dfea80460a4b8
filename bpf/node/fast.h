/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fast path handles messages in place: a client's READ, PUT, DELETE and CAS, and the UPDATE, RELAY and FORWARD that follow
 * from them. Writes, UPDATE, RELAY and FORWARD have one layout, so a node changes a few words, and the checksum follows by
 * difference. A message that the fast path cannot handle stays as it came and takes the slow path. Both paths implement the
 * same rules. Messages of a bundle (bundle.h) take the fast path too; the constant `slotted` tells them from single messages.
 */
#ifndef NQ_FAST_H
#define NQ_FAST_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "message.h"
#include "packet.h"
#include "read.h"
#include "state.h"
#include "tables.h"
#include "wire.gen.h"

/* Where the outgoing message goes. */
enum way {
	WAY_NONE, /* nowhere: it was dropped, and counted */
	WAY_CLIENT,
	WAY_BEFORE, /* to the predecessor */
	WAY_TAIL,
	WAY_AFTER, /* to the successor */
	WAY_STAYS, /* of a slot: a REPLY that was there before */
	WAY_SLOW,
};

/* One message in a frame. */
struct fast {
	struct xdp_md *ctx;
	struct nq_live *live;
	struct nq_chain_config *c;
	__u64 total;	 /* sum of its words, those of the value included; it folds to ones */
	__u64 value_sum; /* of the value */
	__u32 at;	 /* where it begins in the frame */
	__u32 bytes;	 /* its length; at the end, that of the outgoing message */
	__u32 value_bytes;
	__u32 chain;	  /* number of c in nq_chains */
	__be32 from_addr; /* sender of the frame */
	__be32 client_addr;
	__be16 from_port;
	__be16 client_port;
	__u8 op;	/* as received */
	__u8 client_op; /* the client's operation */
};

/* Words of a message of the chain layout. */
enum word {
	WORD_OP = 0,
	WORD_HOPS = 1, /* and flags, shard */
	WORD_EPOCH = 2,
	WORD_CHECK = 3, /* and detail */
	WORD_KEY = 6,
	WORD_SESSION = 10,
	WORD_SEQ = 12,
	WORD_OPERAND = 14,
	WORD_VERSION = 16,
	WORD_CLIENT = 18,
	WORD_PORT = 22, /* and client op */
	CHAIN_WORDS = NQ_CHAIN_BYTES / 4,
};
_Static_assert(__builtin_offsetof(struct nq_base, key_hi) == WORD_KEY * 4, "words of the base header");
_Static_assert(NQ_BASE_BYTES == WORD_SESSION * 4, "words of the chain header");

#define SHORT_VALUE_BYTES 16

/* The words of the message, of which `bytes` can be used; 0 if the frame ends before. */
static __always_inline __u32 *words_of(const struct fast *p, __u32 bytes)
{
	void *w = data_of(p->ctx) + (p->at & 0x7ff);

	return w + bytes <= end_of(p->ctx) ? w : 0;
}

static __always_inline __u64 long_at(const __u32 *w)
{
	return (__u64)w[1] << 32 | w[0];
}

static __always_inline void put_long(__u32 *w, __u64 x)
{
	w[0] = x;
	w[1] = x >> 32;
}

/* Sum of a value that is not short. */
static __noinline __u64 sum_long_value(struct xdp_md *ctx, __u32 at, __u32 n)
{
	__u32 zero = 0;
	struct nq_work *w = bpf_map_lookup_elem(&nq_works, &zero);

	if (!w || n > NQ_MAX_VALUE_BYTES || load_bytes(ctx, at, w->in_bytes + NQ_CHAIN_BYTES, n, NQ_MAX_VALUE_BYTES))
		return 0;
	w->in_bytes[NQ_CHAIN_BYTES + n] = w->in_bytes[NQ_CHAIN_BYTES + n + 1] = w->in_bytes[NQ_CHAIN_BYTES + n + 2] = 0;
	return sum_value(w, n);
}

/* Sums the message; its words, or 0 if it is cut short or damaged. */
static __always_inline __u32 *sum_fast(struct fast *p)
{
	__u32 *w = words_of(p, NQ_CHAIN_BYTES);

	p->value_bytes = p->bytes - NQ_CHAIN_BYTES;
	p->value_sum = 0;
	if (!w || p->value_bytes > NQ_MAX_VALUE_BYTES)
		return 0;
	if (p->value_bytes == SHORT_VALUE_BYTES) {
		if ((void *)(w + CHAIN_WORDS + SHORT_VALUE_BYTES / 4) > end_of(p->ctx))
			return 0;
		p->value_sum = sum_words(w + CHAIN_WORDS, SHORT_VALUE_BYTES / 4);
	} else if (p->value_bytes) {
		p->value_sum = sum_long_value(p->ctx, p->at + NQ_CHAIN_BYTES, p->value_bytes);
	}
	p->total = sum_words(w, CHAIN_WORDS) + p->value_sum;
	return folds_to_ones(p->total) ? w : 0;
}

/* A4 to A8 for the base header of a message that has been summed. */
static __always_inline int is_fast_base(const __u32 *w)
{
	const __u8 *b = (const __u8 *)w;

	return !((w[WORD_OP] ^ NQ_READ_WORD) & bpf_htonl(0xffffff00)) && is_young(w[WORD_HOPS], w[WORD_CHECK]) &&
	       b[3] != 0;
}

static __always_inline int is_fast_op(__u8 op)
{
	return op == NQ_OP_PUT || op == NQ_OP_DELETE || op == NQ_OP_CAS;
}

/* The same for a client's write. */
static __always_inline int is_fast_write(struct fast *p, const __u32 *w)
{
	__u64 zeros = long_at(w + WORD_VERSION) | long_at(w + WORD_CLIENT) | long_at(w + WORD_CLIENT + 2) |
		      long_at(w + WORD_PORT);

	if (p->op != NQ_OP_CAS)
		zeros |= long_at(w + WORD_OPERAND);
	return !zeros && long_at(w + WORD_SESSION) && long_at(w + WORD_SEQ) &&
	       !(p->op == NQ_OP_DELETE && p->value_bytes);
}

/* The same for UPDATE and RELAY; notes whose request it was. */
static __always_inline int is_fast_passed(struct fast *p, const __u32 *w)
{
	p->client_addr = w[WORD_CLIENT + 3];
	p->client_port = *(const __u16 *)(w + WORD_PORT);
	p->client_op = ((const __u8 *)(w + WORD_PORT))[2];
	if (long_at(w + WORD_CLIENT) || w[WORD_CLIENT + 2] != bpf_htonl(0xffff) || !p->client_port ||
	    ((const __u8 *)(w + WORD_PORT))[3] || w[WORD_PORT + 1] || !is_fast_op(p->client_op))
		return 0;
	if (p->value_bytes && (p->op == NQ_OP_RELAY || p->client_op == NQ_OP_DELETE))
		return 0;
	return long_at(w + WORD_SESSION) && long_at(w + WORD_SEQ) && long_at(w + WORD_VERSION);
}

/*
 * A9, for a message whose format is right; the configuration is in p then. All that a message asks of the configuration
 * it takes from there: nq_live may change while the message is here, and half of one configuration with half of the
 * next is neither.
 */
static __always_inline int find_chain(struct fast *p, const __u32 *w)
{
	__u32 shard = bpf_ntohs(*((const __u16 *)(w + WORD_HOPS) + 1));

	if (shard > nq_shard_mask || (bpf_ntohl(w[WORD_KEY + 3]) & nq_shard_mask) != shard)
		return 0;
	p->live = bpf_map_lookup_elem(&nq_live, &shard);
	if (!p->live)
		return 0;
	p->chain = shard * 2 + (p->live->slot & 1);
	p->c = bpf_map_lookup_elem(&nq_chains, &p->chain);
	return p->c && p->c->state != NQ_STATE_NONE;
}

static __always_inline __u32 shard_of(const struct fast *p)
{
	return p->chain / 2;
}

/* The epoch of the configuration in hand, as messages have it. */
static __always_inline __be32 epoch_of(const struct fast *p)
{
	return bpf_htonl(p->c->epoch);
}

static __always_inline void set_word(struct fast *p, __u32 *w, enum word i, __u32 value)
{
	p->total = p->total - w[i] + value;
	w[i] = value;
}

/* Sets the words of every message that follows from another: one hop more, its op, its epoch. */
static __always_inline void follow_on(struct fast *p, __u32 *w, __u8 op)
{
	set_word(p, w, WORD_OP, bpf_htonl((__u32)NQ_MAGIC << 16 | NQ_WIRE_VERSION << 8 | op));
	set_word(p, w, WORD_HOPS, w[WORD_HOPS] + bpf_htonl(0x00010000));
	set_word(p, w, WORD_EPOCH, epoch_of(p));
}

/* Ends a message of the chain layout with this much value behind it. */
static __always_inline void seal_chain(struct fast *p, __u32 *w, __u32 value_bytes)
{
	p->total -= w[WORD_CHECK];
	if (!value_bytes)
		p->total -= p->value_sum;
	w[WORD_CHECK] = pair((__u16)~fold(p->total), 0);
	p->bytes = NQ_CHAIN_BYTES + value_bytes;
}

/* Turns the message, of any layout, into a REPLY without a value; the frame or slot has room for it. */
static __always_inline enum way reply_fast(struct fast *p, __u32 *w, __u16 status, __u64 version)
{
	__u32 detail = pair(0, bpf_htons(status));
	__u32 hops = (w[WORD_HOPS] & bpf_htonl(0x00ffffff)) + bpf_htonl(0x00010000);

	if (is_tail(p->c))
		hops |= bpf_htonl((__u32)NQ_FLAG_TAIL << 24);
	w[WORD_OP] = NQ_REPLY_WORD;
	w[WORD_HOPS] = hops;
	w[WORD_EPOCH] = epoch_of(p);
	w[WORD_CHECK] = detail;
	put_long(w + NQ_BASE_BYTES / 4, bpf_cpu_to_be64(version));
	w[WORD_CHECK] = detail | pair((__u16)~fold(sum_words(w, NQ_VERSION_BYTES / 4)), 0);
	p->bytes = NQ_VERSION_BYTES;
	return WAY_CLIENT;
}

/* For a client's message that only the slow path can answer: BUSY in a bundle, the client sends it as a single message (B3). */
static __always_inline enum way ask_single(struct fast *p, int slotted)
{
	__u32 *w = words_of(p, NQ_VERSION_BYTES);

	if (!slotted || !w)
		return WAY_SLOW;
	count(p->op, NQ_OUTCOME_BUSY);
	return reply_fast(p, w, NQ_STATUS_BUSY, 0);
}

static __always_inline enum way drop_fast(struct fast *p, __u32 outcome)
{
	count(p->op, outcome);
	return WAY_NONE;
}

static __always_inline int comes_from(const struct fast *p, __u32 member)
{
	const struct nq_member *m = &p->c->members[member & (NQ_MAX_CHAIN - 1)];

	return p->from_addr == m->addr && p->from_port == m->port;
}

static __always_inline int is_member(const struct fast *p)
{
	for (int i = 0; i < NQ_MAX_CHAIN; i++)
		if (i < p->c->length && i != p->c->self && comes_from(p, i))
			return 1;
	return 0;
}

#endif
