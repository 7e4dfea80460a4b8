/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Answers that have no room in their packet. A packet that a socket sent over veth reaches XDP with a few bytes to spare,
 * and XDP cannot find more. So a plain READ of a longer value passes, meets this program at the next hook, tc
 * ingress, where a packet may grow, and still needs no process. What this program leaves goes on to the agent's socket.
 */
#ifndef NQ_GROW_H
#define NQ_GROW_H

#define NQ_TC_NEXT (-1) /* TCX_NEXT: not ours */
#define NQ_TC_DROP 2	/* TC_ACT_SHOT */

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

/* Answers from the object, as answer_plain does. */
static __always_inline int grow_answer(struct __sk_buff *skb, const struct plain_read *r, const struct nq_live *live,
				       struct nq_object *o)
{
	struct snapshot s;

	for (int i = 0; i < NQ_READ_TRIES; i++) {
		if (!take_snapshot(o, &s))
			return i ? grow_drop(NQ_OUTCOME_CONTENDED) : NQ_TC_NEXT;
		if (bpf_skb_change_tail(skb, NQ_L4_END + NQ_VERSION_BYTES + s.value_bytes, 0))
			return i ? grow_drop(NQ_OUTCOME_UNROUTABLE) : NQ_TC_NEXT;
		if (write_reply(skb_data(skb), skb_end(skb), r, &s, live))
			return grow_drop(NQ_OUTCOME_UNROUTABLE);
		if (s.value_bytes &&
		    bpf_skb_store_bytes(skb, NQ_L4_END + NQ_VERSION_BYTES, o->value, s.value_bytes, 0))
			return grow_drop(NQ_OUTCOME_UNROUTABLE);
		load_fence();
		if (*(volatile __u32 *)&o->seq != s.seq)
			continue;
		o->reads++;
		count(NQ_OP_READ, NQ_OUTCOME_ANSWERED_CLEAN);
		return bpf_redirect(skb->ifindex, 0);
	}
	return grow_drop(NQ_OUTCOME_CONTENDED);
}

static __always_inline int grow(struct __sk_buff *skb)
{
	__u32 message_bytes = 0;
	struct nq_live *live = 0;
	struct nq_object *o;
	struct plain_read r;
	struct nq_base *base;

	if (skb->vlan_present || parse(skb_data(skb), skb_end(skb), &message_bytes) != PARSED_OURS)
		return NQ_TC_NEXT;
	base = skb_data(skb) + NQ_L4_END;
	if ((void *)(base + 1) > skb_end(skb) || base->magic != bpf_htons(NQ_MAGIC) ||
	    base->version != NQ_WIRE_VERSION || !is_plain_read(base, message_bytes))
		return NQ_TC_NEXT;
	o = find_plain(skb_data(skb), skb_end(skb), &r, &live);
	if (!o)
		return NQ_TC_NEXT;
	return grow_answer(skb, &r, live, o);
}

#endif
