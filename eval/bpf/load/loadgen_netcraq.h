/* SPDX-License-Identifier: GPL-2.0 */
/* The load generator's NetCRAQ dialect. */
#ifndef LOADGEN_NETCRAQ_H
#define LOADGEN_NETCRAQ_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "loadgen.h"
#include "loadgen_clock.h"
#include "wire.gen.h"

#define READ_PACKET_BYTES (HEADERS_BYTES + NQ_BASE_BYTES)
#define WRITE_PACKET_BYTES (HEADERS_BYTES + NQ_CHAIN_BYTES)
#define REPLY_PACKET_BYTES (HEADERS_BYTES + NQ_VERSION_BYTES)
_Static_assert((WRITE_PACKET_BYTES + 7) / 8 == TEMPLATE_WORDS, "a template holds the longest head");

/* A request id has 4 bits for the CPU, 1 for the kind and the rest for the sequence number. */
#define SEQ_BITS 27
#define WRITE_BIT (1u << SEQ_BITS)
#define CPU_SHIFT (SEQ_BITS + 1)
#define SEQ_MASK ((1u << SEQ_BITS) - 1)
#define OUTSTANDING_MAX (1u << 22) /* an answer to an older request is not plausible */

/* Returns the sum of a template's message without its checksum, which is the checksum's complement. */
static __always_inline __u16 template_sum(_Bool writing)
{
	return ~*(volatile const __u16 *)((volatile const __u8 *)templates[writing] + HEADERS_BYTES +
					  __builtin_offsetof(struct nq_base, checksum));
}

/* Returns a request id that identifies the request of an answer. The high half holds CPU, kind and sequence number; the
 * low half mixes these with the key and the tag.
 */
static __always_inline __u64 request_id(__u32 seq, __u64 key_lo)
{
	return (__u64)seq << 32 | (__u32)(key_lo >> 32 ^ key_lo ^ seq ^ tag);
}

static __always_inline __u64 write_session(struct nq_chain *chain, __u64 nth, __u32 cpu, __u64 sum)
{
	__u64 id = session_base + ((__u64)cpu << 32) + (nth & ((1ull << sessions_shift) - 1));
	__u64 session = bpf_cpu_to_be64(id), seq = bpf_cpu_to_be64((nth >> sessions_shift) + 1);

	chain->session = session;
	chain->seq = seq;
	return add_word(add_word(sum, session), seq);
}

/* Fills in the key, the request id and the checksum of a message with this sum. */
static __always_inline void finish(struct nq_base *base, const struct wire_key *key, __u64 request, __u64 sum)
{
	base->request = request;
	base->key_hi = key->hi;
	base->key_lo = key->lo;
	sum = add_word(add_word(add_word(sum, request), key->hi), key->lo);
	base->checksum = ~fold(sum);
}

static __always_inline int generate_read(struct xdp_md *ctx, const struct wire_key *key, __u64 request)
{
	__u8 *data = make_frame(ctx, READ_PACKET_BYTES);

	if (!data)
		return XDP_ABORTED;
	write_template(data, 0, READ_PACKET_BYTES & ~7u); /* finish writes the rest */
	finish((void *)(data + HEADERS_BYTES), key, request, template_sum(0));
	return XDP_TX;
}

static __always_inline int generate_write(struct xdp_md *ctx, const struct wire_key *key, __u64 request, __u64 nth,
					  __u32 cpu)
{
	__u8 *data = make_frame(ctx, WRITE_PACKET_BYTES + value_bytes);
	struct nq_base *base = (void *)(data + HEADERS_BYTES);
	__u64 sum = template_sum(1);

	if (!data)
		return XDP_ABORTED;
	write_template(data, 1, WRITE_PACKET_BYTES & ~7u);
	*(__u16 *)(data + WRITE_PACKET_BYTES - 2) = 0;
	sum = write_session((void *)(base + 1), nth, cpu, sum);
	sum = write_value(data + WRITE_PACKET_BYTES, key, sum);
	finish(base, key, request, sum);
	return XDP_TX;
}

static __always_inline int generate_netcraq(struct xdp_md *ctx, struct counters *counters, const struct wire_key *key,
					    _Bool writing, __u64 nth)
{
	__u32 cpu = bpf_get_smp_processor_id() & (MAX_CPUS - 1);
	__u32 seq = cpu << CPU_SHIFT | (nth & SEQ_MASK);

	if (writing)
		return generate_write(ctx, key, request_id(seq | WRITE_BIT, key->lo), counters->writes++, cpu);
	return generate_read(ctx, key, request_id(seq, key->lo));
}

static __always_inline _Bool plausible(__u64 request, __u64 key_lo)
{
	__u32 seq = request >> 32;
	__u64 sent = all_counters[seq >> CPU_SHIFT & (MAX_CPUS - 1)].sent;

	return request == request_id(seq, key_lo) && (((__u32)sent - 1 - seq) & SEQ_MASK) < OUTSTANDING_MAX;
}

/* Returns the length of the packet that answers a PUT or a READ. */
static __always_inline __u32 reply_bytes(_Bool writing)
{
	return REPLY_PACKET_BYTES + (writing ? 0 : value_bytes);
}

static __always_inline _Bool answers_write(const struct nq_base *base)
{
	return write_share && (write_share == ALL_WRITES || base->request >> 32 & WRITE_BIT);
}

/* Checks a REPLY with status OK. Returns 0, or the reasons why it is wrong. */
static __always_inline __u32 judge(struct nq_base *base, _Bool writing, __u8 *data_end)
{
	struct nq_version *version = (void *)(base + 1);
	__u64 *words = (void *)base, sum = 0, got = bpf_be64_to_cpu(version->version);
	__u32 why = 0;

	if ((__u8 *)(version + 1) + (writing ? 0 : value_bytes) > data_end)
		return WHY_SIZE;
#pragma unroll
	for (int i = 0; i < NQ_VERSION_BYTES / 8; i++)
		sum = add_word(sum, words[i]);
	if (!writing && read_value((__u8 *)(version + 1), base->key_hi, base->key_lo, &sum))
		why |= WHY_VALUE;
	if (base->magic != bpf_htons(NQ_MAGIC) || base->version != NQ_WIRE_VERSION || base->op != NQ_OP_REPLY)
		why |= WHY_HEADER;
	if (!plausible(base->request, base->key_lo))
		why |= WHY_REQUEST;
	if (got == 0 || (version_max && got > version_max))
		why |= WHY_VERSION;
	if (fold(sum) != 0xffff)
		why |= WHY_CHECKSUM;
	return why;
}

/* Checks only the size if only_sizes is set, but always computes all differences, so that the work is the same. */
static __always_inline __u32 judge_fairly(struct counters *counters, struct nq_base *base, __u32 bytes, __u8 *data_end,
					  _Bool writing)
{
	__u32 why = judge(base, writing, data_end);

	counters->differences |= why; /* not all of them count */
	if (only_sizes)
		why &= WHY_SIZE;
	if (bytes != reply_bytes(writing) - HEADERS_BYTES)
		why |= WHY_SIZE;
	return why;
}

/* Counts an answer of the given size. A message other than a REPLY counts as wrong. */
static __always_inline void count_reply(struct counters *counters, struct nq_base *base, __u32 bytes, __u8 *data_end)
{
	__u32 why;

	switch (only_sizes || base->op != NQ_OP_REPLY ? NQ_STATUS_OK : bpf_ntohs(base->detail)) {
	case NQ_STATUS_OK:
		why = answers_write(base) ? judge_fairly(counters, base, bytes, data_end, 1)
					  : judge_fairly(counters, base, bytes, data_end, 0);
		if (!why && base->hops > counters->hops_max)
			counters->hops_max = base->hops;
		if (!why)
			landed(base->request >> 32 & (WINDOW - 1), answers_write(base));
		count_ok(counters, why, answers_write(base));
		return;
	case NQ_STATUS_NOT_FOUND:
		counters->not_found++;
		return;
	case NQ_STATUS_BUSY:
		counters->busy++;
		return;
	}
	counters->other++;
}

static __always_inline int count_netcraq(struct counters *counters, struct udphdr *udp, __u8 *data, __u8 *data_end)
{
	if (data + REPLY_PACKET_BYTES > data_end || udp->dest != client_port)
		return XDP_PASS;
	count_reply(counters, (void *)(udp + 1), data_end - (__u8 *)(udp + 1), data_end);
	return XDP_DROP;
}

#endif
