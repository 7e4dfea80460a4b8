/* SPDX-License-Identifier: GPL-2.0 */
/* Where packets leave: the kernel's FIB decides, ECMP included. */
#ifndef NQ_FIB_H
#define NQ_FIB_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_helpers.h>

#include "packet.h"
#include "program.h"
#include "wire.gen.h"

/* Numbers that the agent needs too: an enum, so that Go finds them in the object's BTF. */
enum nq_group {
	NQ_GROUP_ALL = 0,    /* row of nq_groups that holds every port */
	NQ_GROUP_PORTS = 16, /* most ports of a node */
	NQ_GROUP_COLUMNS = NQ_MAX_CHAIN + 1,
	NQ_FRAME_TAG_MAGIC = 0x4e515031,
};

/* One interface that the node answers on. */
struct nq_port {
	__u32 row; /* of nq_groups, 1 to NQ_GROUP_PORTS */
	__u8 mac[ETH_ALEN];
	__u16 reserved;
};

/* By ifindex. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NQ_GROUP_PORTS);
	__type(key, __u32);
	__type(value, struct nq_port);
} nq_ports SEC(".maps");

/*
 * The ports once more, by the low bits of their ifindex: the kernel finds an array's entry in a tenth of the time of a hash
 * table's, and every packet that leaves asks twice. Of ports that share a cell one has it.
 */
#define NQ_PORT_CELLS 256

struct nq_port_cell {
	__u32 ifindex;
	struct nq_port port;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NQ_PORT_CELLS);
	__type(key, __u32);
	__type(value, struct nq_port_cell);
} nq_port_cells SEC(".maps");

/* The port with this ifindex, or 0. */
static __always_inline struct nq_port *port_at(__u32 ifindex)
{
	__u32 number = ifindex & (NQ_PORT_CELLS - 1);
	struct nq_port_cell *cell = bpf_map_lookup_elem(&nq_port_cells, &number);

	if (cell && cell->ifindex == ifindex)
		return &cell->port;
	return bpf_map_lookup_elem(&nq_ports, &ifindex);
}

/* The loopback device has this index in every network namespace. */
#define NQ_LOOPBACK_IFINDEX 1

/*
 * Next hops that a CPU remembers: a look-up in the FIB takes longer than the rest of a message. Each has all that the
 * FIB was asked, so rules and ECMP decide as without them. Only successes are remembered, for NQ_HOP_JIFFIES: 16 to
 * 160 ms by the kernel's HZ. So long may packets go the old way after a change of a route, a rule, a neighbour or an
 * interface; lost packets are repeated. Next hops filled in by the agent would make rules and ECMP its task.
 */
#define NQ_HOP_ROW_BITS 5
#define NQ_HOP_COLUMNS 2
#define NQ_HOP_JIFFIES 16

struct nq_hop {
	__u64 since; /* jiffies; 0: none */
	__be32 src;
	__be32 dst;
	__be16 sport;
	__be16 dport;
	__u32 from; /* the input device */
	__u32 ifindex;
	__u16 mtu;
	__u8 tos;
	__u8 reserved;
	__u8 dmac[ETH_ALEN];
	__u8 smac[ETH_ALEN];
};

struct nq_hop_row {
	struct nq_hop hops[NQ_HOP_COLUMNS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1 << NQ_HOP_ROW_BITS);
	__type(key, __u32);
	__type(value, struct nq_hop_row);
} nq_hops SEC(".maps");

/* Where the answer to this question is remembered. */
static __always_inline struct nq_hop_row *hop_row(const struct bpf_fib_lookup *fib)
{
	__u32 mixed = fib->ipv4_src ^ fib->ipv4_dst ^ fib->ifindex ^ ((__u32)fib->dport << 16 | fib->sport);
	__u32 number = mixed * 0x9e3779b1 >> (32 - NQ_HOP_ROW_BITS);

	return bpf_map_lookup_elem(&nq_hops, &number);
}

/* Answers the question from the hop; false if it has another answer, or one that is too old. */
static __always_inline int recall(const struct nq_hop *hop, struct bpf_fib_lookup *fib, __u64 now)
{
	if (now - hop->since >= NQ_HOP_JIFFIES || hop->dst != fib->ipv4_dst || hop->src != fib->ipv4_src ||
	    hop->dport != fib->dport || hop->sport != fib->sport || hop->from != fib->ifindex || hop->tos != fib->tos ||
	    hop->mtu < fib->tot_len)
		return 0;
	fib->ifindex = hop->ifindex;
	__builtin_memcpy(fib->dmac, hop->dmac, ETH_ALEN);
	__builtin_memcpy(fib->smac, hop->smac, ETH_ALEN);
	return 1;
}

/*
 * As bpf_fib_lookup, but only the device and the addresses in the answer count. Frames by the loopback device are the
 * agent's: on older kernels a packet may interrupt the program that it runs, so that run remembers nothing.
 */
static __always_inline long ask_fib(struct xdp_md *ctx, struct bpf_fib_lookup *fib)
{
	struct nq_hop_row *row = ctx->ingress_ifindex == NQ_LOOPBACK_IFINDEX ? 0 : hop_row(fib);
	__u64 now = bpf_jiffies64();
	struct nq_hop *hop;
	long rc;

	if (!row)
		return bpf_fib_lookup(ctx, fib, sizeof(*fib), 0);
	if (recall(&row->hops[0], fib, now) || recall(&row->hops[1], fib, now))
		return 0;
	hop = row->hops[0].since <= row->hops[1].since ? &row->hops[0] : &row->hops[1];
	hop->since = 0;
	hop->src = fib->ipv4_src; /* the answer takes the place of some of the question */
	hop->dst = fib->ipv4_dst;
	hop->sport = fib->sport;
	hop->dport = fib->dport;
	hop->from = fib->ifindex;
	hop->tos = fib->tos;
	rc = bpf_fib_lookup(ctx, fib, sizeof(*fib), 0);
	if (rc)
		return rc;
	hop->ifindex = fib->ifindex;
	hop->mtu = fib->mtu_result;
	__builtin_memcpy(hop->dmac, fib->dmac, ETH_ALEN);
	__builtin_memcpy(hop->smac, fib->smac, ETH_ALEN);
	hop->since = now;
	return 0;
}

/*
 * Puts the question for the way of a message of the node's own. The kernel looks up on behalf of an input device on
 * which forwarding is on. The loopback device stands for "from this machine", so that no port has to be turned into a
 * router's.
 */
static __always_inline void ask_for(struct bpf_fib_lookup *fib, __be32 dst, __be16 dport, __u32 message_bytes)
{
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->family = 2; /* AF_INET */
	fib->l4_protocol = IPPROTO_UDP;
	fib->sport = nq_self_port;
	fib->dport = dport;
	fib->tot_len = message_bytes + NQ_L4_END - sizeof(struct ethhdr);
	fib->ifindex = NQ_LOOPBACK_IFINDEX;
	fib->ipv4_src = nq_self_addr;
	fib->ipv4_dst = dst;
}

#define NQ_FIB_NO_PORT 0x100 /* beside BPF_FIB_LKUP_RET_*: the way leads by an interface that is no port */

/*
 * Looks up the way of a message of the node's own; 0 on success, NQ_FIB_NO_PORT where the program cannot send by the
 * interface, else a BPF_FIB_LKUP_RET_* or an error.
 */
static __always_inline long fib_lookup(struct xdp_md *ctx, struct bpf_fib_lookup *fib, __be32 dst, __be16 dport,
				       __u32 message_bytes)
{
	long rc;

	ask_for(fib, dst, dport, message_bytes);
	rc = ask_fib(ctx, fib);
	return !rc && !port_at(fib->ifindex) ? NQ_FIB_NO_PORT : rc;
}

/* Sends the message in the frame back to where the frame came from. */
static __always_inline int send_back(struct xdp_md *ctx, __be32 addr, __be16 port, __u32 message_bytes)
{
	struct frame *f = data_of(ctx);

	if ((void *)(f + 1) > end_of(ctx))
		return XDP_DROP;
	store_swapped(&f->eth, load_macs(&f->eth));
	write_l3(f, addr, port, message_bytes + trailer_bytes());
	return XDP_TX;
}

/*
 * Routes a packet that is not for this node, past the filters of the kernel. The kernel gets packets that the FIB can't route, that leave by an interface
 * that is no port, or whose TTL runs out.
 */
static __noinline int transit(struct xdp_md *ctx)
{
	struct bpf_fib_lookup fib = {.family = 2, .l4_protocol = IPPROTO_UDP};
	struct frame *f = data_of(ctx);
	struct nq_port *port = port_at(ctx->ingress_ifindex);
	__u32 check;

	if (!nq_transit || !port || (void *)(f + 1) > end_of(ctx) || ip_of(f)->ttl <= 1 ||
	    __builtin_memcmp(f->eth.h_dest, port->mac, ETH_ALEN))
		return XDP_PASS;
	fib.sport = udp_of(f)->source;
	fib.dport = udp_of(f)->dest;
	fib.tot_len = bpf_ntohs(ip_of(f)->tot_len);
	fib.ifindex = ctx->ingress_ifindex;
	fib.tos = ip_of(f)->tos;
	fib.ipv4_src = ip_of(f)->saddr;
	fib.ipv4_dst = ip_of(f)->daddr;
	if (ask_fib(ctx, &fib) || !port_at(fib.ifindex))
		return XDP_PASS;
	f = data_of(ctx);
	if ((void *)(f + 1) > end_of(ctx))
		return XDP_PASS;
	check = ip_of(f)->check + bpf_htons(0x0100); /* one less in the TTL, one more here (RFC 1141) */
	ip_of(f)->check = check + (check >= 0xffff);
	ip_of(f)->ttl--;
	__builtin_memcpy(f->eth.h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(f->eth.h_source, fib.smac, ETH_ALEN);
	if (fib.ifindex == ctx->ingress_ifindex)
		return XDP_TX;
	return bpf_redirect(fib.ifindex, 0);
}

#endif
