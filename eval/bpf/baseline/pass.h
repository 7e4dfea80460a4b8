/* SPDX-License-Identifier: GPL-2.0 */
/* Answers to requests, and requests forwarded to other nodes. */
#ifndef NQ_PASS_H
#define NQ_PASS_H

#include <linux/bpf.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "fib.h"
#include "packet.h"
#include "program.h"

/* Both ports of the frame, in exchanged places. */
static __always_inline __u32 swapped_ports(struct frame *f)
{
	return pair(udp_of(f)->dest, udp_of(f)->source);
}

/* Swaps the addresses of a request to this node, so that it leaves as an answer with a message of this length. */
static __always_inline int turn_back(struct frame *f, __u32 message_bytes)
{
	__be32 client = ip_of(f)->saddr;

	store_swapped(&f->eth, load_macs(&f->eth));
	write_l3_from(f, nq_self_addr, client, swapped_ports(f), message_bytes);
	return XDP_TX;
}

/* The same for an answer that goes where the FIB says. */
static __always_inline int answer_client(struct xdp_md *ctx, struct frame *f, __u32 message_bytes)
{
	write_l3_from(f, ip_of(f)->daddr, ip_of(f)->saddr, swapped_ports(f), message_bytes);
	return transit(ctx);
}

/*
 * Forwards a request with a message of this length to another node. The source stays the client. The UDP checksum is
 * set to 0, because the addresses that it covers change.
 */
static __always_inline int pass_on(struct xdp_md *ctx, struct frame *f, __be32 dst, __u32 message_bytes)
{
	__u32 *word = (__u32 *)ip_of(f);
	__u32 total = message_bytes + sizeof(struct iphdr) + sizeof(struct udphdr);
	__u32 lengths = (word[0] & bpf_htonl(0xffff0000)) | bpf_htonl(total);
	__u32 protocol = word[2] & bpf_htonl(0xffff0000);

	word[2] = protocol | (__u16)~fold((__u64)lengths + word[1] + protocol + word[3] + dst) << NQ_CHECK_SHIFT;
	word[0] = lengths;
	word[4] = dst;
	word[6] = pair(bpf_htons(message_bytes + sizeof(struct udphdr)), 0);
	return transit(ctx);
}

#endif
