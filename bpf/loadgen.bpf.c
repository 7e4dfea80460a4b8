// SPDX-License-Identifier: GPL-2.0
/* Load made in the kernel: `generate` writes requests, `count` judges every answer, `swap` is the limit to compare with.
 *
 * All constants in .rodata are set when the object is loaded, so the verifier drops what a run does not need. The
 * host is little-endian: checksums are summed in host order, as RFC 1071 allows.
 *
 * The value that belongs to a key follows from the key alone: 64-bit words key_hi, key_hi + key_lo, key_hi + 2 key_lo,
 * ... of the key as it lies in the packet. So an answer is checked without a table.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "wire.gen.h"

#define HEADERS_BYTES (sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr))
#define READ_PACKET_BYTES (HEADERS_BYTES + NQ_BASE_BYTES)
#define WRITE_PACKET_BYTES (HEADERS_BYTES + NQ_CHAIN_BYTES)
#define REPLY_PACKET_BYTES (HEADERS_BYTES + NQ_VERSION_BYTES)
#define TEMPLATE_WORDS ((WRITE_PACKET_BYTES + 7) / 8)
#define MAX_CPUS 16 /* a request id has 4 bits for the CPU, 1 for the kind and the rest for the sequence number */
#define SEQ_BITS 27
#define WRITE_BIT (1u << SEQ_BITS)
#define CPU_SHIFT (SEQ_BITS + 1)
#define SEQ_MASK ((1u << SEQ_BITS) - 1)
#define OUTSTANDING_MAX (1u << 22) /* an answer to an older request is not plausible */

#define ALL_WRITES (1ull << 32)

/* A READ and a PUT, complete but for what differs from packet to packet; their checksums hold for what is here. */
volatile const __u64 templates[2][TEMPLATE_WORDS];
volatile const __u32 value_bytes;    /* of a PUT and of the answer to a READ */
volatile const __u32 given_bytes;    /* length of the frames that the generator is given */
volatile const __u32 key_count;      /* number of keys */
volatile const __u32 lanes_shift;    /* log2 of the number of sessions per CPU */
volatile const __u64 session_base;   /* big-endian session ids grow from here */
volatile const __u64 version_max;    /* newest version that an answer may carry; 0: any */
volatile const __u32 tag;            /* of this load, part of every request id */
volatile const __u16 client_port;    /* network order: the generator's own port */
volatile const __u64 write_share;    /* of the requests, that are PUTs; out of ALL_WRITES */
volatile const _Bool only_sizes;     /* count: do the same work, but judge the packet's size only */

/* Why an answer is wrong; keep in step with the names in counters.go. */
enum why {
	WHY_SIZE = 1 << 0,
	WHY_HEADER = 1 << 1,
	WHY_REQUEST = 1 << 2,
	WHY_VERSION = 1 << 3,
	WHY_VALUE = 1 << 4,
	WHY_CHECKSUM = 1 << 5,
};

/* What one CPU has sent and received. Only that CPU writes it. */
struct tally {
	__u64 sent;
	__u64 position; /* of the next key */
	__u64 writes; /* PUTs among those sent */
	__u64 pad_to_line[5];
	__u64 ok;
	__u64 wrong;
	__u64 not_found;
	__u64 busy;
	__u64 other; /* any other status */
	__u64 wrong_why;
	__u64 differences; /* found in any answer, whether it counts as wrong or not */
	__u64 hops_max;
} __attribute__((aligned(128)));

struct tally tallies[MAX_CPUS];

struct wire_key {
	__u64 hi, lo; /* as they lie in a packet */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_key);
} keys SEC(".maps");

static __always_inline struct tally *own_tally(void)
{
	return &tallies[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

/* Adds a 64-bit word to an unfolded ones' complement sum. */
static __always_inline __u64 add_word(__u64 sum, __u64 word)
{
	return sum + (word >> 32) + (__u32)word;
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum >> 32) + (__u32)sum;
	sum = (sum >> 16) + (__u16)sum;
	sum = (sum >> 16) + (__u16)sum;
	sum = (sum >> 16) + (__u16)sum;
	return sum;
}

/* The sum of a template's message without its checksum: the complement of that. */
static __always_inline __u16 template_sum(_Bool writing)
{
	return ~*(volatile const __u16 *)((volatile const __u8 *)templates[writing] + HEADERS_BYTES +
					  __builtin_offsetof(struct nq_base, checksum));
}

/* The request id binds key and sequence number together, so that an answer proves which request it belongs to:
 * high half: CPU, kind and sequence number; low half: those, the key and the tag mixed.
 */
static __always_inline __u64 request_id(__u32 seq, __u64 key_lo)
{
	return (__u64)seq << 32 | (__u32)(key_lo >> 32 ^ key_lo ^ seq ^ tag);
}

static __always_inline __u64 write_value(__u8 *p, const struct wire_key *key, __u64 sum)
{
	__u64 word = key->hi;
	__u32 at = 0;

	for (; at + 8 <= value_bytes; at += 8) {
		*(__u64 *)(p + at) = word;
		sum = add_word(sum, word);
		word += key->lo;
	}
	for (; at < value_bytes; at++) {
		p[at] = word;
		sum += at & 1 ? (__u64)(__u8)word << 8 : (__u8)word;
		word >>= 8;
	}
	return sum;
}

static __always_inline __u64 write_lane(struct nq_chain *chain, __u64 nth, __u32 cpu, __u64 sum)
{
	__u64 lane = session_base + ((__u64)cpu << 32) + (nth & ((1ull << lanes_shift) - 1));
	__u64 session = bpf_cpu_to_be64(lane), seq = bpf_cpu_to_be64((nth >> lanes_shift) + 1);

	chain->session = session;
	chain->seq = seq;
	return add_word(add_word(sum, session), seq);
}

/* Fills in what the key and the request id add to a message with this sum. */
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
	__u8 *data, *data_end;

	if (bpf_xdp_adjust_tail(ctx, (int)READ_PACKET_BYTES - (int)given_bytes))
		return XDP_ABORTED;
	data = (void *)(long)ctx->data;
	data_end = (void *)(long)ctx->data_end;
	if (data + READ_PACKET_BYTES > data_end)
		return XDP_ABORTED;
#pragma unroll
	for (int i = 0; i < READ_PACKET_BYTES / 8; i++)
		((__u64 *)data)[i] = templates[0][i];
	finish((void *)(data + HEADERS_BYTES), key, request, template_sum(0));
	return XDP_TX;
}

static __always_inline int generate_write(struct xdp_md *ctx, const struct wire_key *key, __u64 request, __u64 nth, __u32 cpu)
{
	__u64 sum = template_sum(1);
	__u8 *data, *data_end;
	struct nq_base *base;

	if (bpf_xdp_adjust_tail(ctx, (int)(WRITE_PACKET_BYTES + value_bytes) - (int)given_bytes))
		return XDP_ABORTED;
	data = (void *)(long)ctx->data;
	data_end = (void *)(long)ctx->data_end;
	base = (void *)(data + HEADERS_BYTES);
	if (data + WRITE_PACKET_BYTES + value_bytes > data_end)
		return XDP_ABORTED;
#pragma unroll
	for (int i = 0; i < WRITE_PACKET_BYTES / 8; i++)
		((__u64 *)data)[i] = templates[1][i];
	*(__u16 *)(data + WRITE_PACKET_BYTES - 2) = 0;
	sum = write_lane((void *)(base + 1), nth, cpu, sum);
	sum = write_value(data + WRITE_PACKET_BYTES, key, sum);
	finish(base, key, request, sum);
	return XDP_TX;
}

/* Spreads writes evenly among the requests, without a pattern that a walk through the keys could fall in step with. */
static __always_inline _Bool writes_next(__u64 nth)
{
	return write_share && (write_share == ALL_WRITES || (__u32)nth * 2654435761u < write_share);
}

/* Run by BPF_PROG_RUN with live frames, whose buffers come back as the last reader left them. So every byte is written
 * here; and the frame, given at least one byte too long, is cut to its length, because only of a frame that this program
 * has changed does the kernel take the length from here, else from what the last reader made of it.
 */
SEC("xdp")
int generate(struct xdp_md *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id() & (MAX_CPUS - 1);
	struct tally *tally = &tallies[cpu];
	__u32 position = tally->position;
	struct wire_key *key = bpf_map_lookup_elem(&keys, &position);
	_Bool writing = writes_next(tally->sent);
	__u32 seq = cpu << CPU_SHIFT | (tally->sent & SEQ_MASK);

	if (!key)
		return XDP_ABORTED;
	tally->position = position + 1 < key_count ? position + 1 : 0;
	tally->sent++;
	if (writing)
		return generate_write(ctx, key, request_id(seq | WRITE_BIT, key->lo), tally->writes++, cpu);
	return generate_read(ctx, key, request_id(seq, key->lo));
}

/* Reads the value behind p; differing bits are collected, not branched on, so that right and wrong cost the same. */
static __always_inline __u64 read_value(__u8 *p, __u64 key_hi, __u64 key_lo, __u64 *sum)
{
	__u64 word = key_hi, differ = 0;
	__u32 at = 0;

	for (; at + 8 <= value_bytes; at += 8) {
		__u64 got = *(__u64 *)(p + at);

		differ |= got ^ word;
		*sum = add_word(*sum, got);
		word += key_lo;
	}
	for (; at < value_bytes; at++) {
		differ |= p[at] ^ (__u8)word;
		*sum += at & 1 ? (__u64)p[at] << 8 : p[at];
		word >>= 8;
	}
	return differ;
}

static __always_inline _Bool plausible(__u64 request, __u64 key_lo)
{
	__u32 seq = request >> 32;
	__u64 sent = tallies[seq >> CPU_SHIFT & (MAX_CPUS - 1)].sent;

	return request == request_id(seq, key_lo) && (((__u32)sent - 1 - seq) & SEQ_MASK) < OUTSTANDING_MAX;
}

/* Length of the packet that answers a PUT or a READ. */
static __always_inline __u32 reply_bytes(_Bool writing)
{
	return REPLY_PACKET_BYTES + (writing ? 0 : value_bytes);
}

static __always_inline _Bool answers_write(const struct nq_base *base)
{
	return write_share && (write_share == ALL_WRITES || base->request >> 32 & WRITE_BIT);
}

/* Judges a REPLY with status OK: 0, or the reasons why it is wrong. */
static __always_inline __u32 judge(struct nq_base *base, _Bool writing, __u8 *data, __u8 *data_end)
{
	struct nq_version *version = (void *)(base + 1);
	__u64 *words = (void *)base, sum = 0, got = bpf_be64_to_cpu(version->version);
	__u32 why = 0;

	if (data + reply_bytes(writing) > data_end)
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

/* Judges by what the other side is expected to do: keeping all differences makes the work the same for both. */
static __always_inline __u32 judge_fairly(struct tally *tally, struct nq_base *base, __u8 *data, __u8 *data_end,
					  _Bool writing)
{
	__u32 why = judge(base, writing, data, data_end);

	tally->differences |= why;
	if (only_sizes)
		why &= WHY_SIZE;
	if (data + reply_bytes(writing) != data_end)
		why |= WHY_SIZE;
	return why;
}

static __always_inline void tally_reply(struct tally *tally, struct nq_base *base, __u8 *data, __u8 *data_end)
{
	__u32 why;

	switch (only_sizes ? NQ_STATUS_OK : bpf_ntohs(base->detail)) {
	case NQ_STATUS_OK:
		why = answers_write(base) ? judge_fairly(tally, base, data, data_end, 1)
					  : judge_fairly(tally, base, data, data_end, 0);
		if (!why) {
			tally->ok++;
			if (base->hops > tally->hops_max)
				tally->hops_max = base->hops;
			return;
		}
		tally->wrong++;
		tally->wrong_why |= why;
		return;
	case NQ_STATUS_NOT_FOUND:
		tally->not_found++;
		return;
	case NQ_STATUS_BUSY:
		tally->busy++;
		return;
	}
	tally->other++;
}

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);

	if (data + REPLY_PACKET_BYTES > data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP || udp->dest != client_port)
		return XDP_PASS;
	tally_reply(own_tally(), (void *)(udp + 1), data, data_end);
	return XDP_DROP;
}

/* The limit of this machine: addresses change places and a packet of the answer's size goes back. */
SEC("xdp")
int swap(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	__u16 *mac = (void *)data, part;
	__u32 addr;
	__u16 port;

	if ((void *)(udp + 1) > (void *)data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP)
		return XDP_PASS;
#pragma unroll
	for (int i = 0; i < ETH_ALEN / 2; i++) {
		part = mac[i];
		mac[i] = mac[i + ETH_ALEN / 2];
		mac[i + ETH_ALEN / 2] = part;
	}
	addr = ip->daddr;
	ip->daddr = ip->saddr;
	ip->saddr = addr;
	port = udp->dest;
	udp->dest = udp->source;
	udp->source = port;
	if (bpf_xdp_adjust_tail(ctx, (int)reply_bytes(write_share == ALL_WRITES) - (int)(data_end - data)))
		return XDP_ABORTED;
	return XDP_TX;
}

/* For a port whose peer answers with XDP_TX: veth wakes only a receiver that has an XDP program of its own. */
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
