/* SPDX-License-Identifier: GPL-2.0 */
/* Where messages leave; those that no port leads to are the agent's. */
#ifndef NQ_ROUTE_H
#define NQ_ROUTE_H

/*
 * A message that the agent sends through its socket: its next hop's link address is not known yet, or the client is on
 * this machine.
 */
struct nq_punt {
	__u64 at_ns; /* boot clock: an agent that was away drops old messages */
	__be32 addr;
	__be16 port;
	__u16 message_bytes;
	__u8 message[NQ_MAX_VALUE_BYTES + NQ_CHAIN_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} nq_punts SEC(".maps");

static __always_inline int is_for_agent(long fib_result)
{
	return fib_result == BPF_FIB_LKUP_RET_NO_NEIGH || fib_result == BPF_FIB_LKUP_RET_NOT_FWDED;
}

/* Gives the agent the message that stands in the frame, to send through its socket. */
static __noinline int punt(struct xdp_md *ctx, __be32 dst, __be16 dport, __u32 message_bytes)
{
	struct nq_punt *p;

	if (!message_bytes)
		return XDP_DROP;
	p = bpf_ringbuf_reserve(&nq_punts, sizeof(*p), 0);
	if (!p)
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	p->at_ns = bpf_ktime_get_boot_ns();
	p->addr = dst;
	p->port = dport;
	p->message_bytes = message_bytes;
	if (load_bytes(ctx, NQ_L4_END, p->message, message_bytes, sizeof(p->message))) {
		bpf_ringbuf_discard(p, 0);
		return XDP_DROP;
	}
	bpf_ringbuf_submit(p, 0);
	return XDP_DROP;
}

/* Sends the message in the frame to dst. */
static __noinline int route(struct xdp_md *ctx, __be32 dst, __be16 dport, __u32 message_bytes)
{
	struct bpf_fib_lookup fib;
	struct frame *f;
	long rc = fib_lookup(ctx, &fib, dst, dport, message_bytes);

	if (is_for_agent(rc))
		return punt(ctx, dst, dport, message_bytes);
	f = data_of(ctx);
	if (rc || (void *)(f + 1) > end_of(ctx))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	*proto_of(f) = bpf_htons(ETH_P_IP);
	__builtin_memcpy(f->eth.h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(f->eth.h_source, fib.smac, ETH_ALEN);
	write_l3(f, dst, dport, message_bytes + trailer_bytes());
	if (fib.ifindex == ctx->ingress_ifindex)
		return XDP_TX;
	return bpf_redirect(fib.ifindex, 0);
}

#endif
