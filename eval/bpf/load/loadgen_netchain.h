/* SPDX-License-Identifier: GPL-2.0 */
/* The load generator's NetChain dialect. */
#ifndef LOADGEN_NETCHAIN_H
#define LOADGEN_NETCHAIN_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "loadgen.h"
#include "loadgen_clock.h"

#define NC_KEY_AT (HEADERS_BYTES + 8)
#define NC_VALUE_AT (NC_KEY_AT + 16)
#define NC_READ_REPLY 4
#define NC_WRITE_REPLY 5
#define NC_NOT_FOUND 7
#define NC_WIDE_OPS 16

static __always_inline int generate_netchain(struct xdp_md *ctx, const struct wire_key *key, _Bool writing, __u64 nth)
{
	__u32 list_at = NC_VALUE_AT + (writing ? value_bytes : 0), list_count = list_counts[writing];
	__u32 bytes = list_at + 4 * list_count;
	__u8 *data = make_frame(ctx, bytes);

	if (!data)
		return XDP_ABORTED;
	write_template(data, writing, NC_KEY_AT);
	*(__be16 *)(data + HEADERS_BYTES - 8) = port_of(nth);
	*(__u64 *)(data + NC_KEY_AT) = key->hi;
	*(__u64 *)(data + NC_KEY_AT + 8) = key->lo;
	if (writing)
		write_value(data + NC_VALUE_AT, key, 0);
	for (__u32 i = 0; i < list_count && i < LIST_MAX; i++)
		*(__u32 *)(data + list_at + 4 * i) = lists[writing][i];
	return XDP_TX;
}
_Static_assert(NC_KEY_AT % 8 == 2, "a template ends with two bytes");

/* Checks an answer with a value. */
static __always_inline __u32 judge_netchain(__u8 *data, __u8 *data_end)
{
	__u16 length = *(__u16 *)(data + HEADERS_BYTES + (wide_seq ? 2 : 4));
	__u64 *key = (void *)(data + NC_KEY_AT), sum = 0;
	__u32 why = 0;

	if (data + NC_VALUE_AT + value_bytes > data_end)
		return WHY_SIZE;
	if (read_value(data + NC_VALUE_AT, key[0], key[1], &sum))
		why |= WHY_VALUE;
	if (data + NC_VALUE_AT + value_bytes != data_end || bpf_ntohs(length) != value_bytes)
		why |= WHY_SIZE;
	if (data[HEADERS_BYTES + 1])
		why |= WHY_HEADER;
	return why;
}

static __always_inline int count_netchain(struct counters *counters, struct udphdr *udp, __u8 *data, __u8 *data_end)
{
	__u32 place, op, why;

	if (data + NC_VALUE_AT > data_end)
		return XDP_PASS;
	place = place_of(udp->dest);
	if (place >= WINDOW)
		return XDP_PASS;
	op = data[HEADERS_BYTES] - (wide_seq ? NC_WIDE_OPS : 0);
	switch (op) {
	case NC_READ_REPLY:
	case NC_WRITE_REPLY:
		why = judge_netchain(data, data_end);
		if (!why)
			landed(place, op == NC_WRITE_REPLY);
		count_ok(counters, why, op == NC_WRITE_REPLY);
		return XDP_DROP;
	case NC_NOT_FOUND:
		counters->not_found++;
		return XDP_DROP;
	}
	counters->other++;
	return XDP_DROP;
}

#endif
