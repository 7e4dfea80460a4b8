/* SPDX-License-Identifier: GPL-2.0 */
/* ACK multicast: one UPDATE in, the answer and all ACKs out, as a descriptor of multicast.h. */
#ifndef NQ_CLONE_H
#define NQ_CLONE_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "message.h"
#include "multicast.h"
#include "packet.h"
#include "route.h"
#include "state.h"
#include "tables.h"
#include "tag.h"
#include "wire.gen.h"

#define NQ_ANSWER_BYTES (NQ_VERSION_BYTES + 8)

struct nq_descriptor {
	__u32 answer_bytes;
	__u32 reserved;
	struct nq_clone clones[NQ_MAX_CHAIN];
	__u8 answer[NQ_ANSWER_BYTES];
	__u8 ack[NQ_VERSION_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NQ_DESCRIPTORS);
	__type(key, __u32);
	__type(value, struct nq_descriptor);
} nq_descriptors SEC(".maps");

static __always_inline struct nq_descriptor *new_descriptor(__u32 *number)
{
	return next_descriptor(number) ? bpf_map_lookup_elem(&nq_descriptors, number) : 0;
}

/* Composes answer and ACK in the descriptor. */
static __always_inline void compose_messages(struct nq_work *w, struct nq_descriptor *p, __be32 epoch)
{
	__u64 counter = *(__u64 *)(w->in_bytes + NQ_CHAIN_BYTES);

	begin_reply(w, NQ_STATUS_OK, w->number, 0, epoch);
	p->answer_bytes = NQ_VERSION_BYTES;
	if (w->client_op == NQ_OP_ADD) {
		p->answer_bytes = NQ_ANSWER_BYTES;
		w->out_value_sum = w->value_sum;
		*(__u64 *)(p->answer + NQ_VERSION_BYTES) = counter;
	}
	seal_short(w);
	__builtin_memcpy(p->answer, &w->out, NQ_VERSION_BYTES);
	begin(w, NQ_OP_ACK, 0, 0, epoch);
	w->out_short.version.version = bpf_cpu_to_be64(w->committed);
	w->out_value_sum = 0;
	seal_short(w);
	__builtin_memcpy(p->ack, &w->out, NQ_VERSION_BYTES);
}

/* Makes the trailer of a clone, whose message has at most NQ_ANSWER_BYTES bytes; overwrites w's copy of the received message. */
static __noinline void tag_clone(struct nq_work *w, const __u8 *message, struct nq_clone *clone, __u32 n)
{
	struct nq_keyring *ring = keyring();

	if (!ring || n > NQ_ANSWER_BYTES)
		return;
	__builtin_memcpy(w->in_bytes, message, NQ_VERSION_BYTES);
	if (n == NQ_ANSWER_BYTES)
		__builtin_memcpy(w->in_bytes + NQ_VERSION_BYTES, message + NQ_VERSION_BYTES, 8);
	clone->trailer = trailer_of(w, ring, n, end_word(clone->addr, clone->port));
}

/* Gives the agent a message of n bytes that it has to send itself; else counts it as unroutable. */
static __noinline int punt_short(const void *message, __u32 n, __be32 addr, __be16 port, long fib_result)
{
	struct nq_punt *punt;

	if (!is_for_agent(fib_result))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	punt = bpf_ringbuf_reserve(&nq_punts, sizeof(*punt), 0);
	if (!punt)
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	punt->at_ns = bpf_ktime_get_boot_ns();
	punt->addr = addr;
	punt->port = port;
	punt->message_bytes = n;
	__builtin_memcpy(punt->message, message, NQ_VERSION_BYTES);
	if (n == NQ_ANSWER_BYTES)
		__builtin_memcpy(punt->message + NQ_VERSION_BYTES, message + NQ_VERSION_BYTES, 8);
	bpf_ringbuf_submit(punt, 0);
	return 0;
}

/* Passes the answer, and what the ACKs need, to tc ingress, which sends both. */
static __noinline int detour_answer(struct xdp_md *ctx, struct nq_work *w, struct nq_descriptor *p)
{
	struct {
		__be64 committed;
		__u32 slot;
	} __attribute__((packed)) rest = {.committed = bpf_cpu_to_be64(w->committed), .slot = w->slot};

	if (resize(ctx, NQ_ANSWER_BYTES + sizeof(rest)) ||
	    bpf_xdp_store_bytes(ctx, NQ_L4_END, p->answer, NQ_ANSWER_BYTES) ||
	    bpf_xdp_store_bytes(ctx, NQ_L4_END + NQ_ANSWER_BYTES, &rest, sizeof(rest)))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	return detour(ctx, w->client_addr, w->client_port, p->answer_bytes, NQ_DETOUR_WITH_ACKS);
}

/* Sends the answer to the client and an ACK to every other member. */
static __noinline int clone_out(struct xdp_md *ctx, struct nq_work *w)
{
	struct nq_chain_config *c = bpf_map_lookup_elem(&nq_chains, &w->slot);
	__u32 number = 0, n = 0, ifindex = 0, same = 1;
	struct nq_descriptor *p = new_descriptor(&number);
	long rc;

	if (!p || !c)
		return XDP_DROP;
	compose_messages(w, p, bpf_htonl(c->epoch));
	for (int i = 0; i < NQ_MAX_CHAIN; i++)
		p->clones[i].ifindex = 0;
	rc = add_clone(ctx, &p->clones[0], w->client_addr, w->client_port | NQ_IS_ANSWER);
	if (!trailer_bytes() && may_detour(ctx, rc))
		return detour_answer(ctx, w, p);
	if (rc)
		punt_short(p->answer, p->answer_bytes, w->client_addr, w->client_port, rc);
	else
		n = 1;
	if (trailer_bytes())
		tag_clone(w, p->answer, &p->clones[0], p->answer_bytes);
	ifindex = p->clones[0].ifindex;
	for (int i = 0; i < NQ_MAX_CHAIN - 1; i++) {
		struct nq_clone *clone = &p->clones[i + 1];

		if (i >= c->self)
			break;
		rc = add_clone(ctx, clone, c->members[i].addr, c->members[i].port);
		if (rc) {
			punt_short(p->ack, NQ_VERSION_BYTES, c->members[i].addr, c->members[i].port, rc);
			continue;
		}
		if (trailer_bytes())
			tag_clone(w, p->ack, clone, NQ_VERSION_BYTES);
		if (!ifindex)
			ifindex = clone->ifindex;
		same &= ifindex == clone->ifindex;
		n++;
	}
	if (!n || resize(ctx, NQ_ANSWER_BYTES))
		return XDP_DROP;
	return multicast(ctx, number, n, same ? ifindex : 0);
}

/* Puts the trailer behind a clone of n bytes, and the mark into it; n is a constant. */
static __always_inline int put_trailer(struct xdp_md *ctx, __u32 n, const struct nq_trailer *t)
{
	struct nq_base *base = data_of(ctx) + NQ_L4_END;
	struct nq_trailer *out = (void *)base + n;

	if (!trailer_bytes())
		return XDP_PASS;
	if ((void *)(out + 1) > end_of(ctx))
		return XDP_DROP;
	base->version = NQ_WIRE_VERSION | NQ_TAGGED_MARK;
	*out = *t;
	return XDP_PASS;
}

/* Writes the message and headers of a clone into the frame. */
static __always_inline int write_clone(struct xdp_md *ctx, struct nq_descriptor *p, struct nq_clone *clone)
{
	__u32 n = clone->answer ? p->answer_bytes : NQ_VERSION_BYTES;
	struct frame *f;

	if (resize(ctx, n))
		return XDP_DROP;
	f = data_of(ctx);
	if ((void *)(f + 1) + NQ_VERSION_BYTES > end_of(ctx))
		return XDP_DROP;
	write_headers(f, clone, n + trailer_bytes());
	if (!clone->answer) {
		__builtin_memcpy(f + 1, p->ack, NQ_VERSION_BYTES);
		return put_trailer(ctx, NQ_VERSION_BYTES, &clone->trailer);
	}
	__builtin_memcpy(f + 1, p->answer, NQ_VERSION_BYTES);
	if (n != NQ_ANSWER_BYTES)
		return put_trailer(ctx, NQ_VERSION_BYTES, &clone->trailer);
	if ((void *)(f + 1) + NQ_ANSWER_BYTES > end_of(ctx))
		return XDP_DROP;
	__builtin_memcpy((void *)(f + 1) + NQ_VERSION_BYTES, p->answer + NQ_VERSION_BYTES, 8);
	return put_trailer(ctx, NQ_ANSWER_BYTES, &clone->trailer);
}

/* Turns the frame into the descriptor's next clone for this device; frames without a frame tag pass. */
static __always_inline int egress(struct xdp_md *ctx, __u32 ifindex)
{
	__u32 number;
	struct nq_descriptor *p;
	struct nq_clone *clone;

	if (!read_frame_tag(ctx, &number))
		return XDP_PASS;
	p = bpf_map_lookup_elem(&nq_descriptors, &number);
	if (!p)
		return XDP_DROP;
	clone = take_clone(p->clones, ifindex);
	return clone ? write_clone(ctx, p, clone) : XDP_DROP;
}

#endif
