/* SPDX-License-Identifier: GPL-2.0 */
/* Where messages leave. Those that no port leads to take a detour by tc ingress, or are the agent's. */
#ifndef NQ_ROUTE_H
#define NQ_ROUTE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "fib.h"
#include "packet.h"
#include "tables.h"
#include "wire.gen.h"

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
	return fib_result == BPF_FIB_LKUP_RET_NO_NEIGH || fib_result == BPF_FIB_LKUP_RET_NOT_FWDED ||
	       fib_result == NQ_FIB_NO_PORT;
}

#define NQ_MARK_BYTES 5

volatile const __u8 nq_detours = 0;		 /* nq_grow is at tc ingress of every port */
volatile const __u8 nq_mark[NQ_MARK_BYTES] = {}; /* of frames that take a detour; see keepMark */

/* Byte behind the mark. */
enum nq_detour_kind { NQ_DETOUR, NQ_DETOUR_WITH_ACKS };

static __always_inline int is_marked(struct frame *f)
{
	int same = 1;

	for (int i = 0; i < NQ_MARK_BYTES; i++)
		same &= f->eth.h_source[i] == nq_mark[i];
	return same && ip_of(f)->saddr == nq_self_addr;
}

/*
 * Whether a message takes a detour (detour.h). A frame that comes in elsewhere than at a port of the node takes none: one
 * that the agent runs the program on passes to no hook, and one from the socket of a pod may have been left without its
 * checksum. The kernel would put that in the place of ours, which is 0, on the way out.
 */
static __always_inline int may_detour(struct xdp_md *ctx, long fib_result)
{
	struct frame *f = data_of(ctx);

	return nq_detours && (fib_result == BPF_FIB_LKUP_RET_NO_NEIGH || fib_result == NQ_FIB_NO_PORT) &&
	       (void *)(f + 1) <= end_of(ctx) && ctx->ingress_ifindex != NQ_LOOPBACK_IFINDEX &&
	       port_at(ctx->ingress_ifindex);
}

/* Passes the frame, whose message is of n bytes with its trailer, to tc ingress. */
static __always_inline int detour(struct xdp_md *ctx, __be32 dst, __be16 dport, __u32 n, enum nq_detour_kind kind)
{
	struct frame *f = data_of(ctx);

	if ((void *)(f + 1) > end_of(ctx))
		return XDP_DROP;
	*proto_of(f) = bpf_htons(ETH_P_IP);
	for (int i = 0; i < NQ_MARK_BYTES; i++)
		f->eth.h_source[i] = nq_mark[i];
	f->eth.h_source[NQ_MARK_BYTES] = kind;
	write_l3(f, dst, dport, n);
	return XDP_PASS;
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

	if (may_detour(ctx, rc))
		return detour(ctx, dst, dport, message_bytes + trailer_bytes(), NQ_DETOUR);
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

#define NQ_TRANSIT_NETS 4

/* A network whose nodes' messages this node may route. */
struct nq_net {
	__be32 addr;
	__be32 mask;
};

volatile const struct nq_net nq_transit_nets[NQ_TRANSIT_NETS] = {};

static __always_inline int in_transit_nets(__be32 addr)
{
	int in = 0;

	for (int i = 0; i < NQ_TRANSIT_NETS; i++)
		in |= i < nq_transit && (addr & nq_transit_nets[i].mask) == nq_transit_nets[i].addr;
	return in;
}

/* Whether such an op is sent to a node, by a client or a node. */
static __always_inline int is_request(__u8 op)
{
	return (op >= NQ_OP_READ && op <= NQ_OP_ADD) || (op >= NQ_OP_FORWARD && op <= NQ_OP_RELAY) ||
	       op == NQ_OP_BUNDLE || op == NQ_OP_HEARTBEAT;
}

static __always_inline int is_answer(__u8 op)
{
	return op == NQ_OP_REPLY || op == NQ_OP_BUNDLE || op == NQ_OP_HEARTBEAT;
}

/*
 * Whether a packet to another host may be routed here (A0), where no filter of the kernel sees it: a sound packet with
 * a message of this format to a node of one of the networks, or an answer from one. An end with the nodes' port is a
 * node.
 */
static __always_inline int may_pass(struct xdp_md *ctx)
{
	struct frame *f = data_of(ctx);
	struct nq_base *base = (void *)(f + 1);
	__u32 message_bytes;
	int to_node;

	if (!nq_transit || (void *)(base + 1) > end_of(ctx) || measure(ctx, f, &message_bytes) != PARSED_OURS)
		return 0;
	if (message_bytes < NQ_BASE_BYTES || message_bytes > NQ_MAX_MESSAGE_BYTES + NQ_TRAILER_BYTES ||
	    base->magic != bpf_htons(NQ_MAGIC) || base->version != NQ_WIRE_VERSION)
		return 0;
	to_node = udp_of(f)->dest == nq_self_port;
	if (to_node && !in_transit_nets(ip_of(f)->daddr))
		return 0;
	if (udp_of(f)->source == nq_self_port && !in_transit_nets(ip_of(f)->saddr))
		return 0;
	return (to_node && is_request(base->op)) || (udp_of(f)->source == nq_self_port && is_answer(base->op));
}

#endif
