/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Answers at tc ingress, which still need no process. Packets that this program leaves go on to the agent's socket.
 *
 * At ports these are answers that have no room in their packet. A packet that a socket sent over veth reaches XDP with a
 * few bytes to spare, and XDP cannot find more than the headroom of about 200 bytes. So a plain READ of a longer value
 * passes, and here it may grow. The agent answers all other packets, and all before Linux 6.6, in a large buffer.
 *
 * At the loopback device these are heartbeats and plain READs from this machine. XDP there would make the kernel copy
 * all of the machine's own traffic into one piece. Here each of the machine's other packets pays for a comparison of
 * headers. The agent would answer late under load, and not while it is replaced.
 */
#ifndef NQ_GROW_H
#define NQ_GROW_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "detour.h"
#include "heartbeat.h"
#include "lock.h"
#include "packet.h"
#include "rate.h"
#include "read.h"
#include "state.h"
#include "tables.h"
#include "wire.gen.h"

static __always_inline void *skb_data(struct __sk_buff *skb)
{
	return (void *)(long)skb->data;
}

static __always_inline void *skb_end(struct __sk_buff *skb)
{
	return (void *)(long)skb->data_end;
}

static __always_inline int grow_drop(__u32 outcome)
{
	count(NQ_OP_READ, outcome);
	return NQ_TC_DROP;
}

/* Writes the value behind the headers; 0 on success. */
static __always_inline long grow_value(struct __sk_buff *skb, const struct nq_object *o, __u32 n)
{
	__u64 length;

	if (!n)
		return 0;
	if (!fits(n, nq_cell_bytes, &length))
		return -1;
	return bpf_skb_store_bytes(skb, NQ_L4_END + NQ_VERSION_BYTES, o->value, length, 0);
}

/* Answers from the object, as answer_fast does. */
static __always_inline int grow_answer(struct __sk_buff *skb, const struct nq_live *live, struct nq_object *o,
				       __u64 rest_sum)
{
	const struct nq_base *base;
	struct snapshot s;
	struct frame *f;
	struct reply r;

	for (int i = 0; i < NQ_READ_TRIES; i++) {
		f = skb_data(skb);
		if ((void *)(f + 1) + NQ_BASE_BYTES > skb_end(skb))
			return i ? grow_drop(NQ_OUTCOME_UNROUTABLE) : NQ_TC_NEXT;
		base = (void *)(f + 1);
		if (!take_snapshot(o, &base->key_hi, &s))
			return i ? grow_drop(NQ_OUTCOME_CONTENDED) : NQ_TC_NEXT;
		if (bpf_skb_change_tail(skb, NQ_L4_END + NQ_VERSION_BYTES + s.value_bytes, 0))
			return i ? grow_drop(NQ_OUTCOME_UNROUTABLE) : NQ_TC_NEXT;
		f = skb_data(skb);
		if ((void *)(f + 1) + NQ_VERSION_BYTES > skb_end(skb))
			return grow_drop(NQ_OUTCOME_UNROUTABLE);
		if (!i && is_costly(s.value_bytes) && !afford(ip_of(f)->saddr, s.value_bytes))
			return NQ_TC_NEXT;
		r = i ? reply_again(f) : reply_to(f, live, rest_sum);
		write_reply(f, &r, &s);
		if (grow_value(skb, o, s.value_bytes))
			return grow_drop(NQ_OUTCOME_UNROUTABLE);
		if (was_disturbed(&o->seq, s.seq))
			continue;
		answered(o, r.hops);
		return bpf_redirect(skb->ifindex, 0);
	}
	return grow_drop(NQ_OUTCOME_CONTENDED);
}

static __always_inline int grow(struct __sk_buff *skb)
{
	struct nq_live *live = 0;
	struct nq_object *o;
	__u64 rest_sum;
	int local = skb->ifindex == NQ_LOOPBACK_IFINDEX;
	int action = local ? local_heartbeat(skb) : end_detour(skb);

	if (action != NQ_TC_NEXT)
		return action;
	if (local && nq_client_rate) /* the agent's run of the program counts them */
		return NQ_TC_NEXT;
	if (nq_tags != NQ_TAGS_OFF || skb->vlan_present || !is_fast_read(skb_data(skb), skb_end(skb), &rest_sum))
		return NQ_TC_NEXT;
	o = find_fast(skb_data(skb), &live);
	return o ? grow_answer(skb, live, o, rest_sum) : NQ_TC_NEXT;
}

#endif
