/* SPDX-License-Identifier: GPL-2.0 */
/* Reads: R1 to R5. */
#ifndef NQ_READ_H
#define NQ_READ_H

/* Attempts at a copy that no writer disturbs, before the general path takes the object's lock. */
#define NQ_READ_TRIES 4

static __always_inline int lease_holds(const struct nq_live *live)
{
	__u64 until = *(volatile __u64 *)&live->lease_until_ns;

	return until == NQ_LEASE_FOREVER || bpf_ktime_get_boot_ns() < until;
}

/* R4 */
static __always_inline int permitted(const struct nq_live *live)
{
	return live->readable && lease_holds(live);
}

/* R5: within its lease or less than the message's bound behind it. */
static __always_inline int within_bound(const struct nq_live *live, __u32 bound_ms)
{
	__u64 bound = bound_ms * 1000000ULL;
	__u64 until = *(volatile __u64 *)&live->lease_until_ns;

	if (!until) /* never granted, or withdrawn */
		return 0;
	return until > ~0ULL - bound || bpf_ktime_get_boot_ns() < until + bound;
}

/* What a reply to a plain read takes over from the request, kept in registers while the packet is rewritten. */
struct plain_read {
	struct macs macs;
	__be32 addr;
	__be16 port;
	__u32 words[4]; /* the message up to its request id */
	__u64 rest_sum; /* of the words behind: request id and key, which stay where they are */
};

/* A copy of an object's header that no writer disturbed, and of a value as short as `small`. */
struct snapshot {
	__u64 version;
	__u64 small[2];
	__u32 seq;
	__u32 value_bytes;
	__u32 value_sum;
};

/* Takes the snapshot; 0 if a writer is inside or the object is not clean or absent. */
static __always_inline int take_snapshot(const struct nq_object *o, struct snapshot *s)
{
	s->seq = *(volatile __u32 *)&o->seq;
	load_fence();
	s->version = o->version;
	s->value_bytes = o->value_bytes;
	s->value_sum = o->value_sum;
	s->small[0] = *(__u64 *)o->value;
	s->small[1] = *(__u64 *)(o->value + 8);
	if ((s->seq & 1) || !s->version || s->version != o->committed || o->tombstone ||
	    s->value_bytes > nq_cell_bytes)
		return 0;
	load_fence();
	return *(volatile __u32 *)&o->seq == s->seq;
}

/* Writes the headers of the reply over the request, which has been resized; 0 on success. */
static __always_inline int write_reply(void *data, void *end, const struct plain_read *r, const struct snapshot *s,
				       const struct nq_live *live)
{
	struct frame *f = data;
	__u32 *out = (void *)(f + 1);
	__be64 version = bpf_cpu_to_be64(s->version);
	__be32 epoch = live->epoch;
	__u32 op = (r->words[0] & bpf_htonl(0xffffff00)) | bpf_htonl(NQ_OP_REPLY);
	__u32 hops = (r->words[1] & bpf_htonl(0x00ffffff)) + bpf_htonl(0x00010000);

	if ((void *)out + NQ_VERSION_BYTES > end)
		return -1;
	if (live->tail)
		hops |= bpf_htonl((__u32)NQ_FLAG_TAIL << 24);
	store_swapped(&f->eth, r->macs);
	write_l3(f, r->addr, r->port, NQ_VERSION_BYTES + s->value_bytes);
	out[0] = op;
	out[1] = hops;
	out[2] = epoch;
	out[3] = (__u16)~fold((__u64)op + hops + epoch + r->rest_sum + (__u32)version + (version >> 32) +
			      s->value_sum) << (16 - NQ_CHECK_SHIFT); /* and status OK, which is 0 */
	*(__be64 *)(out + NQ_BASE_BYTES / 4) = version;
	return 0;
}
_Static_assert(NQ_STATUS_OK == 0, "write_reply stores it with the checksum");

/* Writes the value behind the headers; 0 on success, 1 if a writer disturbed it meanwhile. */
static __always_inline int write_value(struct xdp_md *ctx, struct nq_object *o, const struct snapshot *s)
{
	__u64 *out = data_of(ctx) + NQ_L4_END + NQ_VERSION_BYTES;

	if (s->value_bytes == sizeof(s->small)) {
		if ((void *)(out + 2) > end_of(ctx))
			return -1;
		out[0] = s->small[0];
		out[1] = s->small[1];
		return 0;
	}
	if (!s->value_bytes)
		return 0;
	if (bpf_xdp_store_bytes(ctx, NQ_L4_END + NQ_VERSION_BYTES, o->value, s->value_bytes))
		return -1;
	load_fence();
	return *(volatile __u32 *)&o->seq != s->seq;
}

/* Answers from the object without a lock; -1, with the packet as it came, if that can't be done now. */
static __always_inline int answer_plain(struct xdp_md *ctx, const struct plain_read *r, const struct nq_live *live,
					struct nq_object *o)
{
	struct snapshot s;

	for (int i = 0; i < NQ_READ_TRIES; i++) {
		if (!take_snapshot(o, &s))
			return i ? drop(NQ_OP_READ, NQ_OUTCOME_CONTENDED) : -1;
		if (resize(ctx, NQ_VERSION_BYTES + s.value_bytes))
			return i ? drop(0, NQ_OUTCOME_UNROUTABLE) : -1;
		if (write_reply(data_of(ctx), end_of(ctx), r, &s, live))
			return XDP_DROP;
		if (write_value(ctx, o, &s))
			continue;
		o->reads++; /* for placement: CPUs that count at the same time may lose one */
		count(NQ_OP_READ, NQ_OUTCOME_ANSWERED_CLEAN);
		return XDP_TX;
	}
	return drop(NQ_OP_READ, NQ_OUTCOME_CONTENDED);
}

/* Is this the head of a READ without flags, of the given length? */
static __always_inline int is_plain_read(const struct nq_base *base, __u32 message_bytes)
{
	return message_bytes == NQ_BASE_BYTES && base->op == NQ_OP_READ && !base->flags;
}

/*
 * Finds the object of a plain read that a node may answer from its copy, if that is clean; 0 for all others, and for
 * messages that are damaged. The frame's lengths have been checked.
 */
static __always_inline struct nq_object *find_plain(void *data, void *end, struct plain_read *r,
						    struct nq_live **live)
{
	struct frame *f = data;
	struct nq_base *base = (void *)(f + 1);
	__u32 shard, *word = (void *)base;

	if ((void *)(base + 1) > end)
		return 0;
	r->words[0] = word[0];
	r->words[1] = word[1];
	r->words[2] = word[2];
	r->words[3] = word[3];
	r->rest_sum = sum_words(word + 4, NQ_BASE_BYTES / 4 - 4);
	if (fold((__u64)r->words[0] + r->words[1] + r->words[2] + r->words[3] + r->rest_sum) != 0xffff ||
	    base->detail || base->hops >= NQ_MAX_HOPS)
		return 0;
	shard = bpf_ntohs(base->shard);
	*live = bpf_map_lookup_elem(&nq_live, &shard);
	if (!*live || ((__u32)bpf_be64_to_cpu(base->key_lo) & nq_shard_mask) != shard || !permitted(*live))
		return 0;
	r->addr = ip_of(f)->saddr;
	r->port = udp_of(f)->source;
	r->macs = load_macs(&f->eth);
	return bpf_map_lookup_elem(&nq_objects, &base->key_hi);
}

/*
 * The read that everything is built for: a plain READ of a clean, present object by a client. Returns an action; or
 * -1, with the packet as it came, for everything else.
 */
static __always_inline int read_clean(struct xdp_md *ctx)
{
	struct nq_live *live = 0;
	struct plain_read r;
	struct nq_object *o = find_plain(data_of(ctx), end_of(ctx), &r, &live);

	return o ? answer_plain(ctx, &r, live, o) : -1;
}

static __always_inline int answer_read(struct xdp_md *ctx, struct nq_work *w, struct nq_object *o, __be32 epoch,
				       __u32 outcome)
{
	__u32 flags = o->version != o->committed ? NQ_FLAG_DIRTY : 0;
	__u32 status = NQ_STATUS_OK;
	int action;

	if (!o->version || o->tombstone) {
		status = NQ_STATUS_NOT_FOUND;
		outcome = NQ_OUTCOME_ANSWERED_ABSENT;
	}
	action = answer_object(ctx, w, o, flags << 8 | status, epoch);
	if (action == XDP_PASS) /* counted when the agent answers */
		return action;
	o->reads++;
	count(w->op, outcome);
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

/* A read on the general path: of a client, or forwarded to the tail. */
static __noinline int read(struct xdp_md *ctx, struct nq_work *w, struct nq_live *live, struct nq_chain_config *c)
{
	struct nq_object *o = bpf_map_lookup_elem(&nq_objects, &w->in.base.key_hi);
	__u8 flags = w->in.base.flags;
	__be32 epoch = live->epoch;
	int relaxed = flags == NQ_FLAG_ANY ||
		      (flags == NQ_FLAG_BOUNDED && within_bound(live, bpf_ntohs(w->in.base.detail)));
	int may = permitted(live);
	__u32 outcome, last;
	int action;

	if (!o) {
		if (relaxed || may) {
			count(w->op, NQ_OUTCOME_ANSWERED_ABSENT);
			return answer(ctx, w, NQ_STATUS_NOT_FOUND, 0, epoch);
		}
	} else if (lock(&o->seq)) {
		int clean = o->version == o->committed;

		outcome = NQ_OUTCOME_ANSWERED_CLEAN;
		if (relaxed)
			outcome = NQ_OUTCOME_ANSWERED_RELAXED;
		else if (!clean || w->op == NQ_OP_FORWARD)
			outcome = NQ_OUTCOME_ANSWERED_TAIL;
		/* A frozen tail may be new: the one before it may still answer an older version under its lease. */
		if (relaxed || (may && (clean || (w->is_tail && c->state == NQ_STATE_ACTIVE)))) {
			action = answer_read(ctx, w, o, epoch, outcome);
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
