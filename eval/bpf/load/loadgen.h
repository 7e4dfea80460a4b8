/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Constants and counters of the load generator, and functions shared by its dialects.
 *
 * The value of a key follows from the key: 64-bit words key_hi, key_hi + key_lo, key_hi + 2 key_lo, ... of the key in
 * packet order. So answers are checked without a table.
 */
#ifndef LOADGEN_H
#define LOADGEN_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define HEADERS_BYTES (sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr))
#define TEMPLATE_WORDS 18
#define MAX_CPUS 16
#define ALL_WRITES (1ull << 32)
#define LIST_MAX 8 /* addresses in a request of NetChain */
#define WINDOW_BITS 14
#define WINDOW (1u << WINDOW_BITS) /* limit of outstanding requests: UDP ports and send times */

/* The protocol of the other side. */
enum dialect { NETCRAQ, NETCHAIN, NETCRAQPAPER };

volatile const __u8 dialect;   /* of enum dialect */
volatile const _Bool wide_seq; /* NETCHAIN only: SEQ has 32 bits */
volatile const _Bool timing;   /* record latencies */
/* A READ and a write without the fields that differ between packets; the checksums cover the templates as they are. */
volatile const __u64 templates[2][TEMPLATE_WORDS];
volatile const __u32 lists[2][LIST_MAX]; /* NETCHAIN only: addresses behind the value of a READ and of a WRITE */
volatile const __u32 list_counts[2];
volatile const __u32 value_bytes;    /* of a write and of the answer to a READ */
volatile const __u32 given_bytes;    /* length of the frames given to the generator */
volatile const __u32 key_count;	     /* number of keys */
volatile const __u32 sessions_shift; /* log2 of the number of sessions per CPU */
volatile const __u64 session_base;   /* first session id, big-endian */
volatile const __u64 version_max;    /* highest version allowed in an answer; 0: any */
volatile const __u32 tag;	     /* tag of this load in every request id */
volatile const __u16
    client_port; /* network order: the generator's port; without request ids, the first of WINDOW ports */
volatile const __u64 write_share; /* share of writes among the requests, out of ALL_WRITES */
volatile const __u32 slots; /* NETCRAQ only: requests per frame, in a bundle; 0: one request per frame, no bundle */
volatile const __u32 slot_bytes; /* length of the slots of such a bundle */
volatile const _Bool only_sizes; /* count: do the same work, but check the packet's size only */

/* Reasons why an answer is wrong; keep in step with the names in counters.go. */
enum why {
	WHY_SIZE = 1 << 0,
	WHY_HEADER = 1 << 1,
	WHY_REQUEST = 1 << 2,
	WHY_VERSION = 1 << 3,
	WHY_VALUE = 1 << 4,
	WHY_CHECKSUM = 1 << 5,
};

/* Counters of one CPU, written by that CPU only. */
struct counters {
	__u64 sent;
	__u64 position; /* of the next key */
	__u64 writes;	/* writes among those sent */
	__u64 pad_to_line[5];
	__u64 ok;
	__u64 wrong;
	__u64 not_found;
	__u64 busy;
	__u64 other; /* any other status */
	__u64 wrong_why;
	__u64 differences; /* found in any answer, whether it counts as wrong or not */
	__u64 hops_max;
	__u64 ok_writes; /* among ok */
} __attribute__((aligned(128)));

struct counters all_counters[MAX_CPUS];

struct wire_key {
	__u64 hi, lo; /* in packet order */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_key);
} keys SEC(".maps");

static __always_inline struct counters *own_counters(void)
{
	return &all_counters[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

/* Gives the frame this length; returns its beginning, or NULL. */
static __always_inline __u8 *make_frame(struct xdp_md *ctx, __u32 bytes)
{
	__u8 *data;

	if (bpf_xdp_adjust_tail(ctx, (int)bytes - (int)given_bytes))
		return NULL;
	data = (void *)(long)ctx->data;
	return data + bytes > (__u8 *)(long)ctx->data_end ? NULL : data;
}

/* Writes the words of a template that lie in these bytes whole, and two bytes of the next if they end there. */
static __always_inline void write_template(__u8 *data, _Bool writing, const __u32 bytes)
{
#pragma unroll
	for (__u32 i = 0; i < bytes / 8; i++)
		((__u64 *)data)[i] = templates[writing][i];
	if (bytes % 8 == 2)
		*(__u16 *)(data + bytes - 2) = templates[writing][bytes / 8];
}

/* Returns the key of the next request. */
static __always_inline struct wire_key *next_key(struct counters *counters)
{
	__u32 position = counters->position;

	counters->position = position + 1 < key_count ? position + 1 : 0;
	return bpf_map_lookup_elem(&keys, &position);
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

/* Spreads writes evenly over the requests, without a pattern that could coincide with the order of the keys. */
static __always_inline _Bool writes_next(__u64 nth)
{
	return write_share && (write_share == ALL_WRITES || (__u32)nth * 2654435761u < write_share);
}

/* Reads the value behind p. It collects differing bits without branches, so that the cost does not depend on the value. */
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

/* Returns the UDP source port of the nth request in a protocol without request ids. */
static __always_inline __be16 port_of(__u64 nth)
{
	return bpf_htons(bpf_ntohs(client_port) + (nth & (WINDOW - 1)));
}

/* Returns the place in the window of the request answered at this port; WINDOW or more: none. */
static __always_inline __u32 place_of(__be16 port)
{
	return (__u32)bpf_ntohs(port) - bpf_ntohs(client_port);
}

/* Counts an answer with status OK, which is wrong for the given reasons. */
static __always_inline void count_ok(struct counters *counters, __u32 why, _Bool writing)
{
	counters->differences |= why;
	if (why) {
		counters->wrong++;
		counters->wrong_why |= why;
		return;
	}
	counters->ok++;
	if (writing)
		counters->ok_writes++;
}

#endif
