/* SPDX-License-Identifier: GPL-2.0 */
/* Packets of the papers' protocols that are turned round or passed on. */
#ifndef NQ_PASS_H
#define NQ_PASS_H

/* Both ports of the frame, in exchanged places. */
static __always_inline __u32 swapped_ports(struct frame *f)
{
	return pair(udp_of(f)->dest, udp_of(f)->source);
}

/* Turns a request that came to this node into an answer of so many bytes that leaves where it came in. */
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
 * Sends a request of so many bytes on to another node; the client stays its source. The UDP checksum, which covers what has
 * changed, is given up.
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
