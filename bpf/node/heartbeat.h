/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Heartbeats: H1 to H4 of spec/protocol.md. The node's agent sets their key, and has no other part in them.
 */
#ifndef NQ_HEARTBEAT_H
#define NQ_HEARTBEAT_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "message.h"
#include "packet.h"
#include "tables.h"
#include "tag.h"
#include "wire.gen.h"

static __always_inline __u64 sip_heartbeat(const struct nq_heart *h, const struct nq_heartbeat *b)
{
	const __u64 *words = (const __u64 *)b;
	__u64 k0 = h->key[0], k1 = h->key[1];
	struct sip s = {
		.v0 = k0 ^ 0x736f6d6570736575ULL,
		.v1 = k1 ^ 0x646f72616e646f6dULL,
		.v2 = k0 ^ 0x6c7967656e657261ULL,
		.v3 = k1 ^ 0x7465646279746573ULL,
	};

#pragma unroll
	for (int i = 0; i < (int)__builtin_offsetof(struct nq_heartbeat, tag) / 8; i++)
		sip_word(&s, little(words[i]));
	sip_word(&s, (__u64) __builtin_offsetof(struct nq_heartbeat, tag) << 56);
	s.v2 ^= 0xff;
#pragma unroll
	for (int i = 0; i < 4; i++)
		sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
_Static_assert(__builtin_offsetof(struct nq_heartbeat, tag) % 8 == 0, "the tag is of whole words");

/* How many of the grants end at `end` or later. */
static __always_inline __u32 lasting(const struct nq_heart *h, __u64 end)
{
	__u32 n = 0;

#pragma unroll
	for (int i = 0; i < NQ_MAX_GRANTERS; i++)
		n += h->ends[i] >= end;
	return n;
}

/* No grant for a stamp before `now` counts any more, and no lease that one gave. */
static __always_inline void void_grants(struct nq_heart *h, __u64 now)
{
	__u32 zero = 0, behind = nq_shard_mask + 1;
	struct nq_live *latest = bpf_map_lookup_elem(&nq_live, &behind);
	__u64 until = *(volatile __u64 *)&h->until;

	if (latest && until < latest->lease_until_ns)
		until = latest->lease_until_ns;
	if (h->void_until < until)
		h->void_until = until;
	*(volatile __u64 *)&h->since = now;
	add_ordered(&zero, 0); /* with that in take_grant: it sees `since`, or the stores below come after its own */
#pragma unroll
	for (int i = 0; i < NQ_MAX_GRANTERS; i++)
		h->ends[i] = 0;
	*(volatile __u64 *)&h->until = 0;
}

/* H4. A controller's clock that jumps ahead shows that the node's stood still, and with it the lease. */
static __noinline int compare_clocks(struct nq_heart *h, const struct nq_heartbeat *b, __u64 now)
{
	__u64 request = bpf_be64_to_cpu(b->request), ahead = (request << 8) - (now << 8);
	__u32 granter = b->granter;
	struct nq_clock *c;

	if (granter >= NQ_MAX_GRANTERS)
		return 0;
	c = &h->clocks[granter];
	if (c->at && c->process == request >> 56 && !(nq_without & NQ_RULE_H4)) {
		__u64 elapsed = now > c->at ? now - c->at : 0;
		__u64 lowered = c->ahead - (elapsed >> 2); /* by 1/1024: a controller's clock may be the slower one */
		__u64 jump = ahead - lowered;

		if ((__s64)jump < 0)
			ahead = lowered;
		else if (jump >> 8 > NQ_CLOCK_JUMP + elapsed / NQ_CLOCK_RATES)
			void_grants(h, now);
	}
	c->process = request >> 56;
	c->ahead = ahead;
	c->at = now;
	return 0;
}

/*
 * H2. Several CPUs may do this at the same time. Each end that is stored was granted by that controller, and each until by
 * a majority, whatever the order of the stores; an earlier one may be the last, which only makes the lease shorter. The
 * agent does not replace the ends meanwhile: see nq_set_heart. A CPU that voids the grants meanwhile is noticed (H4).
 */
static __noinline int take_grant(struct nq_heart *h, const struct nq_heartbeat *b, __u64 now)
{
	__u64 stamp = bpf_be64_to_cpu(b->stamp), end = stamp + bpf_be64_to_cpu(b->lease), until;
	__u32 granter = b->granter, majority = b->majority, zero = 0;
	__u64 since = *(volatile __u64 *)&h->since;

	if (end <= stamp || stamp > now || stamp < since || granter >= NQ_MAX_GRANTERS || majority < 1 ||
	    majority > NQ_MAX_GRANTERS)
		return 0;
	if (end > h->ends[granter])
		h->ends[granter] = end;
	until = h->until;
#pragma unroll
	for (int i = 0; i < NQ_MAX_GRANTERS; i++) {
		end = h->ends[i];
		if (end > until && lasting(h, end) >= majority)
			until = end;
	}
	h->until = until;
	add_ordered(&zero, 0);
	if (*(volatile __u64 *)&h->since != since) {
		h->ends[granter] = 0;
		h->until = 0;
	}
	return 0;
}

/* Turns a heartbeat, in a frame that has all of it, into its answer; an action of XDP. */
static __noinline int turn_heartbeat(struct frame *f)
{
	struct nq_heartbeat *b = (void *)f + NQ_L4_END;
	struct nq_heart *h;
	__u32 zero = 0;
	__u64 now;

	if (b->kind > 1 || b->reserved)
		return drop(NQ_OP_HEARTBEAT, NQ_OUTCOME_MALFORMED);
	h = bpf_map_lookup_elem(&nq_heart, &zero);
	if (!h || !*(volatile __u64 *)&h->valid)
		return drop(NQ_OP_HEARTBEAT, NQ_OUTCOME_BAD_TAG);
	load_fence();
	if (sip_heartbeat(h, b) != bpf_be64_to_cpu(b->tag))
		return drop(NQ_OP_HEARTBEAT, NQ_OUTCOME_BAD_TAG);
	if (b->kind)
		return drop(NQ_OP_HEARTBEAT, NQ_OUTCOME_MALFORMED);
	if (b->node != h->node || b->generation != h->generation || b->incarnation != h->incarnation)
		return drop(NQ_OP_HEARTBEAT, NQ_OUTCOME_BAD_TAG);
	now = now_ns();
	compare_clocks(h, b, now);
	take_grant(h, b, now);
	count(NQ_OP_HEARTBEAT, NQ_OUTCOME_ALIVE);
	b->kind = 1;
	b->stamp = bpf_cpu_to_be64(now);
	b->lease = bpf_cpu_to_be64(h->until);
	b->tag = bpf_cpu_to_be64(sip_heartbeat(h, b));
	store_swapped(&f->eth, load_macs(&f->eth));
	write_l3(f, ip_of(f)->saddr, udp_of(f)->source, NQ_HEARTBEAT_BYTES);
	return XDP_TX;
}

/* Does a datagram claim to be a heartbeat? */
static __always_inline int claims_heartbeat(const struct nq_base *base)
{
	return base->op == NQ_OP_HEARTBEAT && base->magic == bpf_htons(NQ_MAGIC) && base->version == NQ_WIRE_VERSION;
}

/* Answers a datagram that claims to be a heartbeat, in place. */
static __noinline int heartbeat(struct xdp_md *ctx, __u32 message_bytes)
{
	struct frame *f;
	int delta;

	if (message_bytes != NQ_HEARTBEAT_BYTES)
		return drop(NQ_OP_HEARTBEAT, NQ_OUTCOME_MALFORMED);
	delta = (int)(NQ_L4_END + NQ_HEARTBEAT_BYTES) - (int)(ctx->data_end - ctx->data);
	if (delta && bpf_xdp_adjust_tail(ctx, delta)) /* padding */
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	f = data_of(ctx);
	if ((void *)f + NQ_L4_END + NQ_HEARTBEAT_BYTES > end_of(ctx))
		return XDP_DROP;
	return turn_heartbeat(f);
}

/*
 * The same at tc ingress of the loopback device, where heartbeats come in that a controller on this machine sends. What
 * is no heartbeat to this node goes on to the agent's socket. An action of tc.
 */
static __always_inline int local_heartbeat(struct __sk_buff *skb)
{
	struct frame *f = (void *)(long)skb->data;

	if ((void *)f + NQ_L4_END + NQ_HEARTBEAT_BYTES > (void *)(long)skb->data_end ||
	    skb->len != NQ_L4_END + NQ_HEARTBEAT_BYTES || *proto_of(f) != bpf_htons(ETH_P_IP) ||
	    *(__u8 *)ip_of(f) != 0x45 || ip_of(f)->protocol != IPPROTO_UDP ||
	    (ip_of(f)->frag_off & bpf_htons(0x3fff)) || udp_of(f)->dest != nq_self_port || !is_own(ip_of(f)->daddr) ||
	    udp_of(f)->len != bpf_htons(sizeof(struct udphdr) + NQ_HEARTBEAT_BYTES) ||
	    !claims_heartbeat((void *)(f + 1)))
		return NQ_TC_NEXT;
	if (turn_heartbeat(f) != XDP_TX)
		return NQ_TC_DROP;
	return bpf_redirect(skb->ifindex, 0);
}

/* Input of nq_set_heart, in place of a packet. */
struct nq_heart_request {
	__u64 key[2];
	__be64 incarnation;
	__be32 node;
	__be32 generation;
	__u64 valid;
};

/*
 * Sets the identification of the node's heartbeats. The agent first makes them invalid, and waits until no program runs that
 * took one before. So no grant of one set of controllers is stored among those of another, whose places differ. The end
 * of the lease stays: a majority granted it.
 */
SEC("xdp")
int nq_set_heart(struct xdp_md *ctx)
{
	struct nq_heart_request *r = data_of(ctx);
	struct nq_heart *h;
	__u32 zero = 0;

	h = bpf_map_lookup_elem(&nq_heart, &zero);
	if (!h || (void *)(r + 1) > end_of(ctx))
		return XDP_ABORTED;
	if (r->valid) {
		h->key[0] = r->key[0];
		h->key[1] = r->key[1];
		h->incarnation = r->incarnation;
		h->node = r->node;
		h->generation = r->generation;
#pragma unroll
		for (int i = 0; i < NQ_MAX_GRANTERS; i++) {
			h->ends[i] = 0;
			h->clocks[i].at = 0;
		}
		add_ordered(&zero, 0);
	}
	*(volatile __u64 *)&h->valid = r->valid;
	return XDP_PASS;
}

#endif
