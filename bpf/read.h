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

/*
 * The read that everything is built for: a plain READ of a clean, present object by a client, answered without a lock.
 * Returns an action; or -1, with the packet as it came, for everything else.
 */
static __always_inline int read_clean(struct xdp_md *ctx)
{
	struct frame *f = data_of(ctx);
	struct nq_base *base = (void *)(f + 1);
	struct nq_object *o;
	struct nq_live *live;
	struct ethhdr eth;
	__u64 tail_sum, version, small[2];
	__u32 shard, seq, words[4], n, value_sum;
	__be32 addr;
	__be16 port;

	if ((void *)(base + 1) > end_of(ctx))
		return -1;
	__builtin_memcpy(words, base, sizeof(words));
	tail_sum = sum_words((__u8 *)base + sizeof(words), (NQ_BASE_BYTES - sizeof(words)) / 4);
	if (fold((__u64)words[0] + words[1] + words[2] + words[3] + tail_sum) != 0xffff || base->detail ||
	    base->hops >= NQ_MAX_HOPS)
		return -1;
	shard = bpf_ntohs(base->shard);
	live = bpf_map_lookup_elem(&nq_live, &shard);
	if (!live || ((__u32)bpf_be64_to_cpu(base->key_lo) & nq_shard_mask) != shard || !permitted(live))
		return -1;
	o = bpf_map_lookup_elem(&nq_objects, &base->key_hi);
	if (!o)
		return -1;
	addr = f->ip.saddr;
	port = f->udp.source;
	eth = f->eth;
	for (int i = 0; i < NQ_READ_TRIES; i++) {
		seq = *(volatile __u32 *)&o->seq;
		load_fence();
		version = o->version;
		n = o->value_bytes;
		value_sum = o->value_sum;
		small[0] = *(__u64 *)o->value;
		small[1] = *(__u64 *)(o->value + 8);
		if ((seq & 1) || !version || version != o->committed || o->tombstone || n > nq_cell_bytes)
			return i ? drop(NQ_OP_READ, NQ_OUTCOME_CONTENDED) : -1;
		load_fence();
		if (*(volatile __u32 *)&o->seq != seq)
			continue;
		if (resize(ctx, NQ_VERSION_BYTES + n))
			return drop(NQ_OP_READ, NQ_OUTCOME_UNROUTABLE);
		f = data_of(ctx);
		base = (void *)(f + 1);
		if ((void *)base + NQ_VERSION_BYTES > end_of(ctx))
			return XDP_DROP;
		__builtin_memcpy(f->eth.h_dest, eth.h_source, ETH_ALEN);
		__builtin_memcpy(f->eth.h_source, eth.h_dest, ETH_ALEN);
		write_l3(f, addr, port, NQ_VERSION_BYTES + n);
		base->op = NQ_OP_REPLY;
		base->flags = live->tail ? NQ_FLAG_TAIL : 0;
		base->hops = ((__u8 *)words)[5] + 1;
		base->epoch = live->epoch;
		base->detail = bpf_htons(NQ_STATUS_OK);
		base->checksum = 0;
		*(__be64 *)(base + 1) = bpf_cpu_to_be64(version);
		base->checksum = ~fold(sum_words(base, 4) + tail_sum + sum_words(base + 1, 2) + value_sum);
		if (n == sizeof(small)) {
			if ((void *)base + NQ_VERSION_BYTES + sizeof(small) > end_of(ctx))
				return XDP_DROP;
			__builtin_memcpy((void *)base + NQ_VERSION_BYTES, small, sizeof(small));
		} else if (n) {
			if (bpf_xdp_store_bytes(ctx, NQ_L4_END + NQ_VERSION_BYTES, o->value, n))
				return XDP_DROP;
			load_fence();
			if (*(volatile __u32 *)&o->seq != seq)
				continue;
		}
		__sync_fetch_and_add(&o->reads, 1);
		count(NQ_OP_READ, NQ_OUTCOME_ANSWERED_CLEAN);
		return XDP_TX;
	}
	return drop(NQ_OP_READ, NQ_OUTCOME_CONTENDED);
}

static __always_inline int answer_read(struct xdp_md *ctx, struct nq_work *w, struct nq_object *o, __be32 epoch,
				       __u32 outcome)
{
	__u32 flags = o->version != o->committed ? NQ_FLAG_DIRTY : 0;
	__u32 status = NQ_STATUS_OK;

	o->reads++;
	if (!o->version || o->tombstone) {
		status = NQ_STATUS_NOT_FOUND;
		outcome = NQ_OUTCOME_ANSWERED_ABSENT;
	}
	count(w->op, outcome);
	return answer_object(ctx, w, o, flags << 8 | status, epoch);
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
