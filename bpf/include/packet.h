/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Frames: Ethernet, IPv4 without options, UDP, one message. Sums are ones' complement sums of memory words in
 * the CPU's own byte order, which RFC 1071 allows: the folded result is stored as it is.
 */
#ifndef NQ_PACKET_H
#define NQ_PACKET_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "program.h"
#include "wire.gen.h"

/* Actions of tc. */
#define NQ_TC_NEXT (-1) /* TCX_NEXT: not ours */
#define NQ_TC_DROP 2	/* TC_ACT_SHOT */

#define NQ_L4_END 42 /* bytes before the message */
#define NQ_MAX_MESSAGE_BYTES (NQ_CHAIN_BYTES + NQ_MAX_VALUE_BYTES)

/* Where the last two bytes of a word in memory stand in its value. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NQ_CHECK_SHIFT 16
#else
#define NQ_CHECK_SHIFT 0
#endif

struct frame {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
} __attribute__((packed));
_Static_assert(sizeof(struct frame) == NQ_L4_END, "headers before the message");

/*
 * The headers, as pointers to types of natural alignment: through the packed struct the compiler would load every field
 * byte by byte.
 */
static __always_inline __be16 *proto_of(struct frame *f)
{
	return (void *)f + 2 * ETH_ALEN;
}

static __always_inline struct iphdr *ip_of(struct frame *f)
{
	return (void *)f + sizeof(struct ethhdr);
}

static __always_inline struct udphdr *udp_of(struct frame *f)
{
	return (void *)f + sizeof(struct ethhdr) + sizeof(struct iphdr);
}

static __always_inline void *data_of(struct xdp_md *ctx)
{
	return (void *)(long)ctx->data;
}

static __always_inline void *end_of(struct xdp_md *ctx)
{
	return (void *)(long)ctx->data_end;
}

/*
 * Length of a copy as the verifier has to see it. The helpers that copy refuse a length of 0, and before Linux 6.8 the
 * verifier does not conclude from n != 0 that n is at least 1. It does learn the range of n - 1 from one comparison, and so
 * that of the sum. n is not 0; false if it is more than `most`.
 */
static __always_inline int fits(__u32 n, __u32 most, __u64 *length)
{
	__u64 last = (__u64)n - 1;

	asm volatile("" : "+r"(last)); /* else the compiler compares n instead */
	*length = last + 1;
	return last < most;
}

/* Copies n bytes of the frame, 0 to `most`, to a place that has room for `most`; 0 on success. */
static __always_inline long load_bytes(struct xdp_md *ctx, __u32 at, void *to, __u32 n, __u32 most)
{
	__u64 length;

	if (!n)
		return 0;
	return fits(n, most, &length) ? bpf_xdp_load_bytes(ctx, at, to, length) : -1;
}

/* The same in the other direction. */
static __always_inline long store_bytes(struct xdp_md *ctx, __u32 at, const void *from, __u32 n, __u32 most)
{
	__u64 length;

	if (!n)
		return 0;
	return fits(n, most, &length) ? bpf_xdp_store_bytes(ctx, at, (void *)from, length) : -1;
}

/*
 * Folds a sum of less than 2^16 32-bit words. Three steps are enough: the first leaves at most 2^32 + 2^16; if that
 * has a 33rd bit, its low half is small, and the second step leaves no carry that the third could not take.
 */
static __always_inline __u16 fold(__u64 sum)
{
	__u64 high = sum >> 32;

	asm volatile("" : "+r"(high)); /* else the compiler finds a multiplication */
	sum = high + (__u32)sum;
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return sum;
}

/*
 * Whether a sum that is not 0 folds to 0xffff, that is, whether 65535 divides it: its inverse modulo 2^64 takes exactly
 * the multiples of 65535 to numbers of at most 2^64 / 65535.
 */
static __always_inline int folds_to_ones(__u64 sum)
{
	return sum * 0xfffefffefffeffffULL <= 0x0001000100010001ULL;
}

/* Sum of `words` 32-bit words; words is a constant. */
static __always_inline __u64 sum_words(const void *p, int words)
{
	const __u32 *w = p;
	__u64 sum = 0;

#pragma unroll
	for (int i = 0; i < words; i++)
		sum += w[i];
	return sum;
}

/* Two 16-bit fields that follow each other, as one word in memory. */
static __always_inline __u32 pair(__u16 first, __u16 second)
{
	return (__u32)first << (16 - NQ_CHECK_SHIFT) | (__u32)second << NQ_CHECK_SHIFT;
}

/*
 * Writes the IPv4 and UDP headers of a packet that this node makes; ports is both of them, as a word. Whole words, summed
 * before they are stored, because a load that spans two fresh stores stalls the CPU.
 */
static __always_inline void write_l3_from(struct frame *f, __be32 src, __be32 dst, __u32 ports, __u32 message_bytes)
{
	__u32 total = message_bytes + sizeof(struct iphdr) + sizeof(struct udphdr);
	__be32 *word = (__be32 *)ip_of(f);
	__be32 lengths = bpf_htonl(0x45000000 | total);
	__be32 fragment = bpf_htonl(0x4000); /* id 0, DF */
	__be32 protocol = bpf_htonl(NQ_REPLY_TTL << 24 | IPPROTO_UDP << 16);

	word[0] = lengths;
	word[1] = fragment;
	word[2] = protocol | (__u16)~fold((__u64)lengths + fragment + protocol + src + dst) << NQ_CHECK_SHIFT;
	word[3] = src;
	word[4] = dst;
	word[5] = ports;
	word[6] = pair(bpf_htons(message_bytes + sizeof(struct udphdr)), 0); /* no checksum: the message has its own */
}

static __always_inline void write_l3(struct frame *f, __be32 dst, __be16 dport, __u32 message_bytes)
{
	write_l3_from(f, nq_self_addr, dst, pair(nq_self_port, dport), message_bytes);
}

/* Both Ethernet addresses, in registers. */
struct macs {
	__u32 dest_head, source_tail;
	__u16 dest_tail, source_head;
};

static __always_inline struct macs load_macs(const struct ethhdr *eth)
{
	const __u8 *p = (const __u8 *)eth;

	return (struct macs){
		.dest_head = *(const __u32 *)p,
		.dest_tail = *(const __u16 *)(p + 4),
		.source_head = *(const __u16 *)(p + 6),
		.source_tail = *(const __u32 *)(p + 8),
	};
}

/* Writes them swapped. */
static __always_inline void store_swapped(struct ethhdr *eth, struct macs m)
{
	__u8 *p = (__u8 *)eth;

	*(__u16 *)p = m.source_head;
	*(__u32 *)(p + 2) = m.source_tail;
	*(__u32 *)(p + 6) = m.dest_head;
	*(__u16 *)(p + 10) = m.dest_tail;
}

static __always_inline void store_macs(struct ethhdr *eth, struct macs m)
{
	__u8 *p = (__u8 *)eth;

	*(__u32 *)p = m.dest_head;
	*(__u16 *)(p + 4) = m.dest_tail;
	*(__u16 *)(p + 6) = m.source_head;
	*(__u32 *)(p + 8) = m.source_tail;
}

/* How far messages carry tags (T6). */
enum nq_tag_phase { NQ_TAGS_OFF, NQ_TAGS_ACCEPTED, NQ_TAGS_SENT, NQ_TAGS_REQUIRED };

/* Bytes behind each message that leaves. */
static __always_inline __u32 trailer_bytes(void)
{
	return nq_tags >= NQ_TAGS_SENT ? NQ_TRAILER_BYTES : 0;
}

/* Makes the frame as long as a message of that length needs; 0 on success. */
static __always_inline int resize(struct xdp_md *ctx, __u32 message_bytes)
{
	int delta = (int)(message_bytes + trailer_bytes() + NQ_L4_END) - (int)(ctx->data_end - ctx->data);

	return delta ? bpf_xdp_adjust_tail(ctx, delta) : 0;
}

/*
 * As resize, for a message that will be written whole. veth gives a packet from a socket little room behind it: then
 * the room in front is used, and only the Ethernet header moves with the frame's beginning. 0 if all bytes stay where
 * they are, 1 if the message does not, less than 0 if there is no room.
 */
static __always_inline int make_room(struct xdp_md *ctx, __u32 message_bytes)
{
	int delta = (int)(message_bytes + trailer_bytes() + NQ_L4_END) - (int)(ctx->data_end - ctx->data);
	struct frame *f;
	__be16 proto;
	struct macs m;

	if (!delta || !bpf_xdp_adjust_tail(ctx, delta))
		return 0;
	f = data_of(ctx);
	if (delta < 0 || (void *)(f + 1) > end_of(ctx))
		return -1;
	m = load_macs(&f->eth);
	proto = *proto_of(f);
	if (bpf_xdp_adjust_head(ctx, -delta))
		return -1;
	f = data_of(ctx);
	if ((void *)(f + 1) > end_of(ctx))
		return -1;
	store_macs(&f->eth, m);
	*proto_of(f) = proto;
	return 1;
}

/* Is this an address of the node? Answers come from nq_self_addr in any case: clients know nodes by it. */
static __always_inline int is_own(__be32 addr)
{
	return addr == nq_self_addr || (nq_pod_addr && addr == nq_pod_addr);
}

enum parsed { PARSED_OURS, PARSED_PASS, PARSED_TRANSIT, PARSED_BAD_CHECKSUM, PARSED_TRUNCATED };

/* Says whether a UDP frame is sound, and how many bytes follow the UDP header. */
static __always_inline enum parsed measure(struct xdp_md *ctx, struct frame *f, __u32 *message_bytes)
{
	__u32 total, room;

	if (!folds_to_ones(sum_words(ip_of(f), 5)))
		return PARSED_BAD_CHECKSUM;
	total = bpf_ntohs(ip_of(f)->tot_len);
	room = ctx->data_end - ctx->data - sizeof(struct ethhdr);
	if (total < NQ_L4_END - sizeof(struct ethhdr) || total > room ||
	    bpf_ntohs(udp_of(f)->len) != total - sizeof(struct iphdr))
		return PARSED_TRUNCATED;
	*message_bytes = total - (NQ_L4_END - sizeof(struct ethhdr));
	return PARSED_OURS;
}

/*
 * Says whether the frame carries a message to this node. On PARSED_OURS the IPv4 header is sound, all lengths agree
 * and *message_bytes (0 to 65507) bytes follow the UDP header; trailing padding may follow them.
 */
static __always_inline enum parsed parse(struct xdp_md *ctx, __u32 *message_bytes)
{
	struct frame *f = data_of(ctx);

	if ((void *)(f + 1) > end_of(ctx))
		return PARSED_PASS;
	if (*proto_of(f) != bpf_htons(ETH_P_IP) || *(__u8 *)ip_of(f) != 0x45 || ip_of(f)->protocol != IPPROTO_UDP ||
	    (ip_of(f)->frag_off & bpf_htons(0x3fff)))
		return PARSED_PASS;
	if (udp_of(f)->dest != nq_self_port) /* another node's answer passes as its request did */
		return udp_of(f)->source == nq_self_port && ip_of(f)->daddr != nq_self_addr ? PARSED_TRANSIT
											    : PARSED_PASS;
	if (!is_own(ip_of(f)->daddr))
		return PARSED_TRANSIT;
	return measure(ctx, f, message_bytes);
}

#endif
