/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The load generator's dialect of NetCRAQ as published. A message has 162 bits: KV_OP (2), KEY_ID (32), VALUE (128). KEY_ID
 * is the last 32 bits of a key, and the value follows from it.
 */
#ifndef LOADGEN_NETCRAQPAPER_H
#define LOADGEN_NETCRAQPAPER_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "loadgen.h"
#include "loadgen_clock.h"

#define NP_READ_REPLY 1
#define NP_WRITE 2
#define NP_ACKNOWLEDGE 3
#define NP_PACKET_BYTES (HEADERS_BYTES + 21)

struct np_message {
	__be32 head;
	__be64 middle, next;
	__u8 last;
} __attribute__((packed));

/* Computes the value of an object. */
static __always_inline void np_words(__u32 id, __u64 *high, __u64 *low)
{
	*high = id * 0x9e3779b97f4a7c15ull;
	*low = *high ^ id;
}

static __always_inline void np_write(struct np_message *m, __u32 op, __u32 id, __u64 high, __u64 low)
{
	m->head = bpf_htonl(op << 30 | id >> 2);
	m->middle = bpf_cpu_to_be64((__u64)id << 62 | high >> 2);
	m->next = bpf_cpu_to_be64(high << 62 | low >> 2);
	m->last = low << 6;
}

static __always_inline int generate_netcraqpaper(struct xdp_md *ctx, const struct wire_key *key, _Bool writing,
						 __u64 nth)
{
	__u32 id = bpf_be64_to_cpu(key->lo);
	__u64 high = 0, low = 0;
	__u8 *data = make_frame(ctx, NP_PACKET_BYTES);

	if (!data)
		return XDP_ABORTED;
	write_template(data, writing, HEADERS_BYTES);
	*(__be16 *)(data + HEADERS_BYTES - 8) = port_of(nth);
	if (writing)
		np_words(id, &high, &low);
	np_write((void *)(data + HEADERS_BYTES), writing ? NP_WRITE : 0, id, high, low);
	return XDP_TX;
}
_Static_assert(HEADERS_BYTES % 8 == 2, "the headers end with two bytes");

static __always_inline int count_netcraqpaper(struct counters *counters, struct udphdr *udp, __u8 *data, __u8 *data_end)
{
	struct np_message *m = (void *)(udp + 1);
	__u64 high, low, middle, next;
	__u32 place, id, op, why = 0;

	if (data + NP_PACKET_BYTES > data_end)
		return XDP_PASS;
	place = place_of(udp->dest);
	if (place >= WINDOW)
		return XDP_PASS;
	middle = bpf_be64_to_cpu(m->middle);
	next = bpf_be64_to_cpu(m->next);
	op = bpf_ntohl(m->head);
	id = op << 2 | middle >> 62;
	op >>= 30;
	np_words(id, &high, &low);
	if ((middle << 2 | next >> 62) != high || (next << 2 | m->last >> 6) != low)
		why |= WHY_VALUE;
	if (data + NP_PACKET_BYTES != data_end)
		why |= WHY_SIZE;
	if ((op != NP_READ_REPLY && op != NP_ACKNOWLEDGE))
		why |= WHY_HEADER;
	if (!why)
		landed(place, op == NP_ACKNOWLEDGE);
	count_ok(counters, why, op == NP_ACKNOWLEDGE);
	return XDP_DROP;
}

#endif
