/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Detours: messages that XDP cannot send itself. Their way leads by an interface that is no port, such as the bridge
 * of pods, or to a next hop whose link address the kernel has yet to find. The frame passes to the next hook, tc
 * ingress, where nq_grow sends it by any interface, and clones the ACKs that go with an answer. No process takes part.
 * A table of pods' interfaces for XDP would not do: ACKs leave by multicast to the ports.
 *
 * A mark in place of the sender's link address tells such a frame from one that came in. It is a random number, so no
 * other host can make one.
 */
#ifndef NQ_DETOUR_H
#define NQ_DETOUR_H

#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "clone.h"
#include "fib.h"
#include "packet.h"
#include "route.h"
#include "tables.h"
#include "wire.gen.h"

/* An answer and what its ACKs need, as a frame takes them to tc ingress. */
struct nq_detour {
	struct frame f;
	__u8 answer[NQ_ANSWER_BYTES];
	__be64 committed;
	__u32 slot; /* of nq_chains */
} __attribute__((packed));

struct nq_ack_frame {
	struct frame f;
	struct nq_short_message ack;
} __attribute__((packed));

struct nq_detour_work { /* the stack is short */
	struct nq_detour in;
	struct nq_ack_frame out;
} __attribute__((packed));

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nq_detour_work);
} nq_detour_works SEC(".maps");

/* Drops a message that cannot be sent. */
static __always_inline int lose(void)
{
	count(0, NQ_OUTCOME_UNROUTABLE);
	return NQ_TC_DROP;
}

/* Sends the frame in skb to dst by the interface that the FIB names; the kernel finds the link address. */
static __noinline int leave(struct __sk_buff *skb, __be32 dst, __be16 dport, __u32 message_bytes)
{
	struct bpf_fib_lookup fib;
	long rc;

	ask_for(&fib, dst, dport, message_bytes);
	rc = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	if (rc && rc != BPF_FIB_LKUP_RET_NO_NEIGH)
		return lose();
	return bpf_redirect_neigh(fib.ifindex, 0, 0, 0);
}

/* Sends a clone of skb as an ACK, or gives it to the agent. */
static __noinline int send_ack(struct __sk_buff *skb, struct nq_ack_frame *out, __be32 addr, __be16 port)
{
	struct bpf_fib_lookup fib;
	long rc;

	ask_for(&fib, addr, port, NQ_VERSION_BYTES);
	rc = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	if (!rc && !port_at(fib.ifindex))
		rc = NQ_FIB_NO_PORT;
	if (rc)
		return punt_short(&out->ack, NQ_VERSION_BYTES, addr, port, rc);
	*proto_of(&out->f) = bpf_htons(ETH_P_IP);
	__builtin_memcpy(out->f.eth.h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(out->f.eth.h_source, fib.smac, ETH_ALEN);
	write_l3(&out->f, addr, port, NQ_VERSION_BYTES);
	if (bpf_skb_store_bytes(skb, 0, out, sizeof(*out), 0) || bpf_clone_redirect(skb, fib.ifindex, 0))
		return lose();
	return 0;
}

/* Sends an ACK to every other member of the tail's chain, then the answer. */
static __noinline int leave_with_acks(struct __sk_buff *skb)
{
	__u32 zero = 0, slot, n;
	struct nq_detour_work *w = bpf_map_lookup_elem(&nq_detour_works, &zero);
	struct nq_short_message *ack;
	struct nq_chain_config *c;

	if (!w || bpf_skb_load_bytes(skb, 0, &w->in, sizeof(w->in)) || bpf_skb_change_tail(skb, sizeof(w->out), 0))
		return lose();
	slot = w->in.slot;
	c = bpf_map_lookup_elem(&nq_chains, &slot);
	if (!c)
		return lose();
	ack = &w->out.ack;
	__builtin_memcpy(ack, w->in.answer, NQ_VERSION_BYTES);
	ack->base.op = NQ_OP_ACK;
	ack->base.flags = 0;
	ack->base.detail = 0;
	ack->base.checksum = 0;
	ack->version.version = w->in.committed;
	ack->base.checksum = ~fold(sum_words(ack, NQ_VERSION_BYTES / 4));
	for (int i = 0; i < NQ_MAX_CHAIN - 1; i++) {
		if (i >= c->self)
			break;
		send_ack(skb, &w->out, c->members[i].addr, c->members[i].port);
	}
	n = bpf_ntohs(udp_of(&w->in.f)->len) - sizeof(struct udphdr);
	if (bpf_skb_change_tail(skb, NQ_L4_END + NQ_ANSWER_BYTES, 0) ||
	    bpf_skb_store_bytes(skb, 0, &w->in, NQ_L4_END + NQ_ANSWER_BYTES, 0) ||
	    bpf_skb_change_tail(skb, NQ_L4_END + n, 0))
		return lose();
	return leave(skb, ip_of(&w->in.f)->daddr, udp_of(&w->in.f)->dest, n);
}

/* Sends a frame that takes a detour; NQ_TC_NEXT if this is none. */
static __always_inline int end_detour(struct __sk_buff *skb)
{
	struct frame *f = (void *)(long)skb->data;

	if (!nq_detours || (void *)(f + 1) > (void *)(long)skb->data_end || !is_marked(f))
		return NQ_TC_NEXT;
	if (f->eth.h_source[NQ_MARK_BYTES] == NQ_DETOUR_WITH_ACKS)
		return leave_with_acks(skb);
	return leave(skb, ip_of(f)->daddr, udp_of(f)->dest, bpf_ntohs(udp_of(f)->len) - sizeof(struct udphdr));
}

#endif
