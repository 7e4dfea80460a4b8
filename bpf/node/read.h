/* SPDX-License-Identifier: GPL-2.0 */
/* Reads: R1 to R5. */
#ifndef NQ_READ_H
#define NQ_READ_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "lock.h"
#include "message.h"
#include "objects.h"
#include "packet.h"
#include "rate.h"
#include "state.h"
#include "tables.h"
#include "wire.gen.h"

/* First words of messages: magic, version, op. */
#define NQ_READ_WORD bpf_htonl((__u32)NQ_MAGIC << 16 | NQ_WIRE_VERSION << 8 | NQ_OP_READ)
#define NQ_REPLY_WORD bpf_htonl((__u32)NQ_MAGIC << 16 | NQ_WIRE_VERSION << 8 | NQ_OP_REPLY)

/* Attempts at a copy that no writer disturbs, before the slow path takes the object's lock. */
#define NQ_READ_TRIES 4

/* R4; *now is the time in ns, or 0: then it is asked for if it matters, once for all messages of a frame. */
static __always_inline int permitted_at(const struct nq_live *live, __u64 *now)
{
	__u64 until = *(volatile __u64 *)&live->lease_until_ns;

	if (!live->readable)
		return 0;
	if ((nq_without & NQ_RULE_R4) || until == NQ_LEASE_FOREVER)
		return 1;
	if (!*now)
		*now = now_ns();
	return *now < lease_end(until);
}

static __always_inline int permitted(const struct nq_live *live)
{
	__u64 now = 0;

	return permitted_at(live, &now);
}

/* R5: within its lease or less than the message's bound behind it. */
static __always_inline int within_bound(const struct nq_live *live, __u32 bound_ms)
{
	__u64 bound = bound_ms * 1000000ULL;
	__u64 until = *(volatile __u64 *)&live->lease_until_ns;

	if (live->readable && until != NQ_LEASE_FOREVER)
		until = lease_end(until);
	if (!until) /* never granted, or withdrawn */
		return 0;
	return until > ~0ULL - bound || now_ns() < until + bound;
}

/* A copy of an object's header that no writer disturbed, and of a value as short as `small`. */
struct snapshot {
	__u64 version;
	__u64 small[2];
	__u32 seq;
	__u32 value_bytes;
	__u32 value_sum;
};

/* Takes the snapshot; 0 if a writer is inside, or the object is not clean, absent or another key's. */
static __always_inline int take_snapshot(const struct nq_object *o, const void *key, struct snapshot *s)
{
	const __u16 kind = NQ_USED | NQ_CLEAN | NQ_TOMBSTONE;
	__u16 shape;

	s->seq = read_begin(&o->seq);
	shape = o->shape;
	if ((s->seq & 1) || (shape & kind) != (NQ_USED | NQ_CLEAN) || !is_object_of(o, key_at(key)))
		return 0;
	s->version = o->version;
	s->value_bytes = shape & NQ_LENGTH;
	s->value_sum = o->value_sum;
	s->small[0] = *(__u64 *)o->value;
	s->small[1] = *(__u64 *)(o->value + 8);
	if (!s->version || s->value_bytes > nq_cell_bytes)
		return 0;
	return !was_disturbed(&o->seq, s->seq);
}

/* The 32-bit word that starts `at` bytes into the frame. */
static __always_inline __u32 word_at(const struct frame *f, __u32 at)
{
	return *(const __u32 *)((const __u8 *)f + at);
}

/* Do the second and fourth word of a message have neither flags nor detail, and hops below the limit (A7, A8)? */
static __always_inline int is_young(__u32 hops_word, __u32 check_word)
{
	return !(hops_word & bpf_htonl(0xff000000 | (0xff & -NQ_MAX_HOPS) << 16)) && !(check_word & pair(0, 0xffff));
}
_Static_assert((NQ_MAX_HOPS & (NQ_MAX_HOPS - 1)) == 0, "is_young compares hops by a mask");

/*
 * Says in few comparisons whether the frame is a sound READ without flags to this node. Other frames take the
 * slow path, which finds the error, if there is one.
 */
static __always_inline int is_fast_read(const struct frame *f, const void *end, __u64 *rest_sum)
{
	const __u32 *ip = (void *)f + sizeof(struct ethhdr), *word = (void *)f + NQ_L4_END;

	if ((void *)word + NQ_BASE_BYTES > end)
		return 0;
	if ((word_at(f, 2 * ETH_ALEN) & bpf_htonl(0xffffff00)) != bpf_htonl(ETH_P_IP << 16 | 0x4500) ||
	    (word_at(f, 20) & bpf_htonl(0x3fff00ff)) != bpf_htonl(IPPROTO_UDP) || !is_own(ip[4]) ||
	    word_at(f, 36) != pair(nq_self_port, bpf_htons(sizeof(struct udphdr) + NQ_BASE_BYTES)) ||
	    (ip[0] & bpf_htonl(0xffff)) != bpf_htonl(NQ_L4_END - sizeof(struct ethhdr) + NQ_BASE_BYTES) ||
	    !folds_to_ones(sum_words(ip, 5)))
		return 0;
	*rest_sum = sum_words(word + 4, NQ_BASE_BYTES / 4 - 4);
	return word[0] == NQ_READ_WORD && is_young(word[1], word[3]) &&
	       folds_to_ones((__u64)NQ_READ_WORD + word[1] + word[2] + word[3] + *rest_sum);
}
/* The fields of a reply that do not depend on the object. */
struct reply {
	__be32 addr;
	__be16 port;
	__be32 epoch;
	__u32 hops;	/* the second word: flags, hops, shard */
	__u64 rest_sum; /* of the request id and the key, which stay where they are */
};

/* Turns the request in the frame into its reply. */
static __always_inline struct reply reply_to(struct frame *f, const struct nq_live *live, __u64 rest_sum)
{
	__u32 hops = word_at(f, NQ_L4_END + 4) + bpf_htonl(0x00010000);

	store_swapped(&f->eth, load_macs(&f->eth));
	if (live->tail)
		hops |= bpf_htonl((__u32)NQ_FLAG_TAIL << 24);
	return (struct reply){ip_of(f)->saddr, udp_of(f)->source, live->epoch, hops, rest_sum};
}

/* The same for a frame that already holds a reply, which a writer disturbed. */
static __always_inline struct reply reply_again(const struct frame *f)
{
	const __u32 *word = (void *)f + NQ_L4_END;

	return (struct reply){word_at(f, NQ_L4_END - 12), word_at(f, NQ_L4_END - 8) >> NQ_CHECK_SHIFT, word[2], word[1],
			      sum_words(word + 4, NQ_BASE_BYTES / 4 - 4)};
}

/* Writes the headers of the reply and the version behind them; the frame has at least this length. */
static __always_inline void write_reply(struct frame *f, const struct reply *r, const struct snapshot *s)
{
	__u32 *out = (void *)f + NQ_L4_END;
	__be64 version = bpf_cpu_to_be64(s->version);

	write_l3(f, r->addr, r->port, NQ_VERSION_BYTES + s->value_bytes);
	out[0] = NQ_REPLY_WORD;
	out[1] = r->hops;
	out[2] = r->epoch;
	out[3] = (__u16)~fold((__u64)NQ_REPLY_WORD + r->hops + r->epoch + r->rest_sum + (__u32)version +
			      (version >> 32) + s->value_sum)
		 << (16 - NQ_CHECK_SHIFT); /* and status OK, which is 0 */
	*(__be64 *)(out + NQ_BASE_BYTES / 4) = version;
}
_Static_assert(NQ_STATUS_OK == 0, "write_reply stores it with the checksum");

/* Writes the value behind the headers; 0 on success, 1 if a writer disturbed it meanwhile. */
static __always_inline int write_value(struct xdp_md *ctx, const struct nq_object *o, const struct snapshot *s)
{
	__u64 *out = data_of(ctx) + NQ_L4_END + NQ_VERSION_BYTES;
	__u32 n = s->value_bytes;

	if (n == sizeof(s->small)) {
		if ((void *)(out + 2) > end_of(ctx))
			return -1;
		out[0] = s->small[0];
		out[1] = s->small[1];
		return 0;
	}
	if (!n)
		return 0;
	if (store_bytes(ctx, NQ_L4_END + NQ_VERSION_BYTES, o->value, n, nq_cell_bytes))
		return -1;
	return was_disturbed(&o->seq, s->seq);
}

/* hops is the reply's second word, which holds the shard. */
static __always_inline int answered(struct nq_object *o, __u32 hops)
{
	struct nq_load *load = load_of(bpf_ntohl(hops) & 0xffff);

	o->reads++; /* CPUs that count at the same time may lose one */
	if (load)
		load->fast_reads++;
	return XDP_TX;
}

/* Counts a read that the slow path answered. */
static __always_inline void count_read(struct nq_work *w, __u32 outcome)
{
	struct nq_load *load = load_of(w->shard);

	count(w->op, outcome);
	if (load)
		load->other_reads++;
}

/* Answers once more from the start, in a frame that holds a reply which a writer disturbed. */
static __noinline int answer_again(struct xdp_md *ctx, struct nq_object *o)
{
	struct nq_base *base;
	struct snapshot s;
	struct frame *f;
	struct reply r;
	int result;

	for (int i = 1; i < NQ_READ_TRIES; i++) {
		base = data_of(ctx) + NQ_L4_END;
		if ((void *)(base + 1) > end_of(ctx) || !take_snapshot(o, &base->key_hi, &s))
			break;
		if (resize(ctx, NQ_VERSION_BYTES + s.value_bytes))
			return drop(0, NQ_OUTCOME_UNROUTABLE);
		f = data_of(ctx);
		if ((void *)(f + 1) + NQ_VERSION_BYTES > end_of(ctx))
			return XDP_DROP;
		r = reply_again(f);
		write_reply(f, &r, &s);
		result = write_value(ctx, o, &s);
		if (result <= 0)
			return result ? XDP_DROP : answered(o, r.hops);
	}
	return drop(NQ_OP_READ, NQ_OUTCOME_CONTENDED);
}

/*
 * Answers a plain read from the object without a lock; -1, with the packet as it came but for padding, if that can't be
 * done now. The frame is resized before anything is written, and its contents are loaded behind that call, across
 * which the CPU has few registers.
 */
static __always_inline int answer_fast(struct xdp_md *ctx, const struct nq_live *live, struct nq_object *o,
				       __u64 rest_sum)
{
	__u32 value_bytes = shape_of(o) & NQ_LENGTH;
	const struct nq_base *base;
	struct snapshot s;
	struct frame *f;
	struct reply r;
	int result;

	if (!is_committed(o) || value_bytes > nq_cell_bytes || resize(ctx, NQ_VERSION_BYTES + value_bytes))
		return -1;
	f = data_of(ctx);
	if ((void *)(f + 1) + NQ_VERSION_BYTES > end_of(ctx))
		return XDP_DROP;
	base = (void *)(f + 1);
	if (!take_snapshot(o, &base->key_hi, &s) || s.value_bytes != value_bytes)
		return -1;
	if (is_costly(value_bytes) && !afford(ip_of(f)->saddr, value_bytes))
		return -1;
	r = reply_to(f, live, rest_sum);
	write_reply(f, &r, &s);
	result = write_value(ctx, o, &s);
	if (result)
		return result < 0 ? XDP_DROP : answer_again(ctx, o);
	return answered(o, r.hops);
}

/*
 * Finds the object of a plain read that a node may answer from its own copy, if that is clean; 0 for all others. The
 * message has been checked.
 */
static __always_inline struct nq_object *find_fast(const struct frame *f, struct nq_live **live)
{
	const struct nq_base *base = (void *)f + NQ_L4_END;
	__u32 shard = bpf_ntohs(base->shard);

	*live = bpf_map_lookup_elem(&nq_live, &shard);
	if (!*live || ((__u32)bpf_be64_to_cpu(base->key_lo) & nq_shard_mask) != shard || !permitted(*live))
		return 0;
	return find_object(&base->key_hi);
}

/*
 * The read that everything is built for: a plain READ of a clean, present object by a client. Returns an action; or
 * -1, with the packet as it came but for padding, for everything else.
 */
static __always_inline int read_clean(struct xdp_md *ctx)
{
	struct nq_live *live = 0;
	struct nq_object *o;
	__u64 rest_sum;

	if (!is_fast_read(data_of(ctx), end_of(ctx), &rest_sum))
		return -1;
	o = find_fast(data_of(ctx), &live);
	return o ? answer_fast(ctx, live, o, rest_sum) : -1;
}

static __always_inline int answer_read(struct xdp_md *ctx, struct nq_work *w, struct nq_object *o, __u32 flags,
				       __be32 epoch, __u32 outcome)
{
	__u32 status = NQ_STATUS_OK;
	int action;

	if (is_absent(o)) {
		status = NQ_STATUS_NOT_FOUND;
		outcome = NQ_OUTCOME_ANSWERED_ABSENT;
	}
	action = answer_object(ctx, w, o, flags << 8 | status, epoch);
	if (action == XDP_PASS) /* counted when the agent answers */
		return action;
	if (action == THEN_LESS) {
		count(w->op, NQ_OUTCOME_LIMITED);
		return answer(ctx, w, NQ_STATUS_BUSY, 0, epoch);
	}
	o->reads++;
	count_read(w, outcome);
	return action;
}

/* Passes the client's message to another member inside a FORWARD. */
static __noinline int pass(struct xdp_md *ctx, struct nq_work *w, struct nq_member *to, __be32 epoch)
{
	__be32 addr = to->addr;
	__be16 port = to->port;

	count(w->op, NQ_OUTCOME_FORWARDED);
	begin(w, NQ_OP_FORWARD, 0, 0, epoch);
	begin_chain(w, 0);
	w->out_value_sum = w->value_sum;
	if (put_chain(ctx, w, w->value_bytes))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	return to_node(w, addr, port, NQ_CHAIN_BYTES + w->value_bytes);
}

/* A read on the slow path: of a client, or forwarded to the tail. */
static __noinline int read(struct xdp_md *ctx, struct nq_work *w, struct nq_live *live, struct nq_chain_config *c)
{
	struct nq_object *o = find_object(&w->in.base.key_hi);
	__u8 flags = w->in.base.flags;
	__be32 epoch = live->epoch;
	int relaxed =
	    flags == NQ_FLAG_ANY || (flags == NQ_FLAG_BOUNDED && within_bound(live, bpf_ntohs(w->in.base.detail)));
	int may = permitted(live);
	__u32 outcome, last;
	int action;

	if (!o) {
		if (relaxed || may) {
			count_read(w, NQ_OUTCOME_ANSWERED_ABSENT);
			return answer(ctx, w, NQ_STATUS_NOT_FOUND, 0, epoch);
		}
	} else if (lock_object(o, &w->in.base.key_hi)) {
		int clean = is_clean(c, o);

		outcome = NQ_OUTCOME_ANSWERED_CLEAN;
		if (relaxed)
			outcome = NQ_OUTCOME_ANSWERED_RELAXED;
		else if (w->op == NQ_OP_FORWARD)
			outcome = NQ_OUTCOME_ANSWERED_TAIL;
		/* A frozen tail may be new: the one before it may still answer an older version under its lease. */
		if (relaxed || (may && clean)) {
			action = answer_read(ctx, w, o, clean ? 0 : NQ_FLAG_DIRTY, epoch, outcome);
			unlock(&o->seq);
			return action;
		}
		unlock(&o->seq);
	} else {
		return drop(w->op, NQ_OUTCOME_CONTENDED);
	}
	if (w->is_tail) {
		count(w->op, may ? NQ_OUTCOME_BUSY : NQ_OUTCOME_NO_LEASE);
		return answer(ctx, w, NQ_STATUS_BUSY, 0, epoch);
	}
	last = (c->length - 1) & (NQ_MAX_CHAIN - 1);
	return pass(ctx, w, &c->members[last], epoch);
}

#endif
