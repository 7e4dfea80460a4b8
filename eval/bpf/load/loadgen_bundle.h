/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NetCRAQ in bundles: a frame carries `slots` requests, each with its own key, request id, session and checksum. Each answer
 * is checked separately. All slots of a run have one length, which fits the longest message that a request turns into. The
 * bytes behind a message in its slot are not significant (B), so the generator does not write them.
 */
#ifndef LOADGEN_BUNDLE_H
#define LOADGEN_BUNDLE_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "loadgen.h"
#include "loadgen_clock.h"
#include "loadgen_netcraq.h"
#include "wire.gen.h"

#define FIRST_SLOT_AT (HEADERS_BYTES + NQ_BUNDLE_BYTES)

static __always_inline __u32 bundle_frame_bytes(void)
{
	return FIRST_SLOT_AT + slots * slot_bytes;
}

/* Returns the header of every bundle of a run. */
static __always_inline __u64 bundle_head(void)
{
	struct nq_bundle head = {
		.magic = bpf_htons(NQ_MAGIC),
		.version = NQ_WIRE_VERSION,
		.op = NQ_OP_BUNDLE,
		.count = slots,
		.slot_bytes = bpf_htons(slot_bytes),
	};

	return *(__u64 *)&head;
}
_Static_assert(sizeof(struct nq_bundle) == sizeof(__u64), "the header of a bundle is a word");

/* Returns a word of a template's message. */
static __always_inline __u64 message_word(_Bool writing, __u32 i)
{
	return *(volatile const __u64 *)((volatile const __u8 *)templates[writing] + HEADERS_BYTES + 8 * i);
}

static __always_inline void say_length(struct nq_slot *slot, __u32 bytes)
{
	slot->length = bpf_htons(bytes);
	slot->check = ~bpf_htons(bytes);
}

static __always_inline void put_read(struct nq_slot *slot, const struct wire_key *key, __u64 request)
{
	struct nq_base *base = (void *)(slot + 1);
	__u64 *words = (void *)base;

	say_length(slot, NQ_BASE_BYTES);
	words[0] = message_word(0, 0);
	words[1] = message_word(0, 1);
	finish(base, key, request, template_sum(0));
}
_Static_assert(__builtin_offsetof(struct nq_base, request) == 16, "two words stand before what finish writes");

static __always_inline void put_write(struct nq_slot *slot, const struct wire_key *key, __u64 request, __u64 nth,
				      __u32 cpu)
{
	struct nq_base *base = (void *)(slot + 1);
	__u64 *words = (void *)base, sum = template_sum(1);

	say_length(slot, NQ_CHAIN_BYTES + value_bytes);
#pragma unroll
	for (int i = 0; i < NQ_CHAIN_BYTES / 8; i++)
		words[i] = message_word(1, i);
	sum = write_session((void *)(base + 1), nth, cpu, sum);
	sum = write_value((__u8 *)base + NQ_CHAIN_BYTES, key, sum);
	finish(base, key, request, sum);
}

static __always_inline int generate_bundle(struct xdp_md *ctx, struct counters *counters)
{
	__u32 cpu = bpf_get_smp_processor_id() & (MAX_CPUS - 1), bytes = bundle_frame_bytes();
	__u64 nth = counters->sent;
	__u8 *data = make_frame(ctx, bytes);

	if (!data)
		return XDP_ABORTED;
	write_template(data, 0, HEADERS_BYTES);
	*(__u64 *)(data + HEADERS_BYTES) = bundle_head();
	for (__u32 i = 0; i < slots && i < NQ_MAX_SLOTS; i++, nth++) {
		struct nq_slot *slot = (void *)(data + FIRST_SLOT_AT + i * slot_bytes);
		struct wire_key *key = next_key(counters);
		__u32 seq = cpu << CPU_SHIFT | (nth & SEQ_MASK);

		if (!key)
			return XDP_ABORTED;
		took_off(nth);
		if (writes_next(nth))
			put_write(slot, key, request_id(seq | WRITE_BIT, key->lo), counters->writes++, cpu);
		else
			put_read(slot, key, request_id(seq, key->lo));
	}
	counters->sent = nth;
	return XDP_TX;
}

/* Counts the answer in a slot, if any. With only_sizes, the size of the frame has already been checked. */
static __always_inline void count_slot(struct counters *counters, struct nq_slot *slot, __u8 *data_end)
{
	__u32 bytes = only_sizes ? reply_bytes(write_share == ALL_WRITES) - HEADERS_BYTES : bpf_ntohs(slot->length);

	if (!only_sizes) {
		if (slot->check != (__u16)~slot->length)
			return count_ok(counters, WHY_HEADER, 0);
		if (!bytes)
			return;
		if (bytes < NQ_VERSION_BYTES)
			return count_ok(counters, WHY_SIZE, 0);
	}
	count_reply(counters, (void *)(slot + 1), bytes, data_end);
}

/* Answers come back in the bundle of their requests, which keeps its slots. */
static __always_inline int count_bundle(struct counters *counters, struct udphdr *udp, __u8 *data, __u8 *data_end)
{
	__u32 bytes = bundle_frame_bytes();

	if (data + bytes > data_end || udp->dest != client_port)
		return XDP_PASS;
	if (data + bytes != data_end) {
		count_ok(counters, WHY_SIZE, 0);
		return XDP_DROP;
	}
	if (*(__u64 *)(data + HEADERS_BYTES) != bundle_head()) {
		count_ok(counters, WHY_HEADER, 0);
		return XDP_DROP;
	}
	for (__u32 i = 0; i < slots && i < NQ_MAX_SLOTS; i++)
		count_slot(counters, (void *)(data + FIRST_SLOT_AT + i * slot_bytes), data_end);
	return XDP_DROP;
}

#endif
