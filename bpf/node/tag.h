/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Authentication: a tag behind every message (T1 to T5 of spec/protocol.md). A program that is
 * loaded without tags has nothing of this file.
 */
#ifndef NQ_TAG_H
#define NQ_TAG_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "message.h"
#include "packet.h"
#include "tables.h"
#include "wire.gen.h"

/* Generations that are kept, by their low bits. */
enum nq_key_sets { NQ_KEY_SETS = 4 };

#define NQ_TAG_WORDS ((NQ_MAX_MESSAGE_BYTES + 7) / 8)

/* The keys of one generation, as two words of the CPU's each. */
struct nq_key_set {
	__u32 generation;
	__u32 valid;
	__u64 keys[3][2]; /* by enum nq_key */
};

enum nq_key { NQ_KEY_READ, NQ_KEY_WRITE, NQ_KEY_CHAIN };

struct nq_keyring {
	__u32 sign; /* generation of the messages that this node sends */
	__u32 reserved;
	struct nq_key_set sets[NQ_KEY_SETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nq_keyring);
} nq_keys SEC(".maps");

struct sip {
	__u64 v0, v1, v2, v3;
	const __u8 *message;
};

static __always_inline __u64 rotate(__u64 x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static __always_inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v0 = rotate(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v2 = rotate(s->v2, 32);
}

static __always_inline void sip_word(struct sip *s, __u64 word)
{
	s->v3 ^= word;
	sip_round(s);
	sip_round(s);
	s->v0 ^= word;
}

static long sip_next(__u32 i, struct sip *s)
{
	if (i >= NQ_TAG_WORDS)
		return 1;
	sip_word(s, little(*(const __u64 *)(s->message + i * 8)));
	return 0;
}

/* One end of a message as the tag covers it (T5), as a word in memory: address, port, two zero bytes. */
static __always_inline __u64 end_word(__be32 addr, __be16 port)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (__u64)port << 32 | addr;
#else
	return (__u64)addr << 32 | (__u64)port << 16;
#endif
}

static __always_inline __u64 own_end(void)
{
	return end_word(nq_self_addr, nq_self_port);
}

/* T5: notes the ends of the message in w; that of a client is not covered. */
static __always_inline void set_ends(struct nq_work *w, __u64 from, __u64 to)
{
	__u8 op = w->in.base.op;

	w->ends[0] = op < NQ_OP_FORWARD ? 0 : from;
	w->ends[1] = op == NQ_OP_REPLY ? 0 : to;
}

/*
 * SipHash-2-4 of the ends of the message in w and of its first n bytes; behind them stand zeros or anything else.
 */
static __noinline __u64 siphash(struct nq_work *w, const struct nq_key_set *set, __u32 which, __u32 n)
{
	__u64 k0, k1, last;
	struct sip s;

	if (which > NQ_KEY_CHAIN || n > NQ_MAX_MESSAGE_BYTES)
		return 0;
	k0 = set->keys[which][0];
	k1 = set->keys[which][1];
	s.v0 = k0 ^ 0x736f6d6570736575ULL;
	s.v1 = k1 ^ 0x646f72616e646f6dULL;
	s.v2 = k0 ^ 0x6c7967656e657261ULL;
	s.v3 = k1 ^ 0x7465646279746573ULL;
	s.message = w->in_bytes;
	sip_word(&s, little(w->ends[0]));
	sip_word(&s, little(w->ends[1]));
	bpf_loop(n / 8, sip_next, &s, 0);
	last = little(*(const __u64 *)(w->in_bytes + (n & ~7u)));
	last &= (1ULL << (n & 7) * 8) - 1;
	sip_word(&s, last | (__u64)(n + sizeof(w->ends)) << 56);
	s.v2 ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* T2: which key a message is tagged with. */
static __always_inline __u32 key_of(__u8 op)
{
	if (op == NQ_OP_READ || op == NQ_OP_REPLY)
		return NQ_KEY_READ;
	return op < NQ_OP_FORWARD ? NQ_KEY_WRITE : NQ_KEY_CHAIN;
}

static __always_inline struct nq_keyring *keyring(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&nq_keys, &zero);
}

/* The trailer of the message of n bytes that stands in w and goes to another node or a client. */
static __always_inline struct nq_trailer trailer_of(struct nq_work *w, const struct nq_keyring *ring, __u32 n, __u64 to)
{
	const struct nq_key_set *set = &ring->sets[ring->sign & (NQ_KEY_SETS - 1)];

	set_ends(w, own_end(), to);
	return (struct nq_trailer){
		.tag = bpf_cpu_to_be64(siphash(w, set, key_of(w->in.base.op), n)),
		.generation = bpf_htonl(set->generation),
		.version = bpf_htons(NQ_TRAILER_VERSION),
	};
}

/* Whether the trailer behind the message of n bytes, which stands in w too, is right. */
static __noinline int tag_holds(struct xdp_md *ctx, struct nq_work *w, __u32 n)
{
	struct nq_keyring *ring = keyring();
	struct nq_key_set *set;
	struct nq_trailer t;
	__u32 generation;

	if (!ring || n > NQ_MAX_MESSAGE_BYTES || bpf_xdp_load_bytes(ctx, NQ_L4_END + n, &t, sizeof(t)))
		return 0;
	generation = bpf_ntohl(t.generation);
	set = &ring->sets[generation & (NQ_KEY_SETS - 1)];
	if (!set->valid || set->generation != generation || t.version != bpf_htons(NQ_TRAILER_VERSION) || t.reserved)
		return 0;
	set_ends(w, end_word(w->from_addr, w->from_port), own_end());
	return siphash(w, set, key_of(w->in.base.op), n) == bpf_be64_to_cpu(t.tag);
}

/*
 * Puts the trailer behind the message of n bytes in the frame, which has room for it and goes to send_addr, and the mark
 * into it; 0 on success.
 */
static __noinline int tag_message(struct xdp_md *ctx, struct nq_work *w, __u32 n)
{
	__u8 version = NQ_WIRE_VERSION | NQ_TAGGED_MARK;
	struct nq_keyring *ring = keyring();
	struct nq_trailer t;

	if (!ring || n < NQ_BASE_BYTES || load_bytes(ctx, NQ_L4_END, w->in_bytes, n, NQ_MAX_MESSAGE_BYTES))
		return -1;
	t = trailer_of(w, ring, n, end_word(w->send_addr, w->send_port));
	if (bpf_xdp_store_bytes(ctx, NQ_L4_END + __builtin_offsetof(struct nq_base, version), &version, 1))
		return -1;
	return bpf_xdp_store_bytes(ctx, NQ_L4_END + n, &t, sizeof(t));
}

#endif
