/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A message on the slow path: copied into per-CPU memory, checked by the rules A4 to A8 of spec/protocol.md in the
 * order of wire.Decode, then answered or passed on by composing a header and writing it over the packet. The value
 * of a message that is passed on stays where it is in the packet.
 */
#ifndef NQ_MESSAGE_H
#define NQ_MESSAGE_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "packet.h"
#include "rate.h"
#include "state.h"
#include "tables.h"
#include "wire.gen.h"

#define NQ_SUM_CHUNK 512 /* older kernels sum at most this much in one call */

struct nq_message {
	struct nq_base base;
	struct nq_chain chain;
};

struct nq_short_message {
	struct nq_base base;
	struct nq_version version;
};

struct nq_work {
	union {
		struct nq_message in;
		struct nq_short_message in_short;
		__u8 in_bytes[NQ_CHAIN_BYTES + 3 * NQ_SUM_CHUNK]; /* as received, then zeros */
	};
	union {
		struct nq_message out;
		struct nq_short_message out_short;
	};
	struct nq_session_key session_key; /* the stack is short */
	__u64 counter;			   /* new value of an ADD, host order */
	__u64 number;			   /* version the write got */
	__u64 digest;			   /* of the received message, if it has the chain layout (W2) */
	__u64 ends[2];			   /* sender and receiver of the message that is tagged (tag.h) */
	__u32 value_bytes;		   /* of the received message */
	__u32 value_sum;		   /* of the received value */
	__u32 out_value_sum;		   /* of the value that goes out */
	__u32 shard;
	__u32 slot;	  /* of nq_chains: the configuration under which the message is handled */
	__u64 committed;  /* of the object, for ACKs */
	__u32 send_bytes; /* length of the message that stands in the frame */
	__be32 send_addr;
	__be16 send_port;
	__u16 reserved;
	__be32 from_addr; /* sender of the packet */
	__be32 client_addr;
	__be16 from_port;
	__be16 client_port;
	__u8 op;	/* of the received message */
	__u8 client_op; /* the client's operation */
	__u8 is_tail;
	__u8 has_credit;    /* of the client's address, for an answer that is costly (T7) */
	__u32 costly_bytes; /* of the value in such an answer, which goes out; 0: there is none */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nq_work);
} nq_works SEC(".maps");

/* The entry of the received write's session, made if need be; 0 if the table is full. */
static __always_inline struct nq_session *own_session(struct nq_work *w, int head, enum no_session *why)
{
	struct nq_session *entry;

	w->session_key.session = w->in.chain.session;
	w->session_key.shard = w->shard;
	entry = bpf_map_lookup_elem(&nq_sessions, &w->session_key);
	return entry ? entry : new_session(&w->session_key, owner_of(w->client_addr), head, why);
}

/* Result of decode() for a sound message; other results are outcomes under which it is dropped. */
#define ACCEPTED 0xff

/*
 * Results of handlers besides XDP actions: handlers compose, slow_path() sends. That keeps calls shallow (the verifier
 * allows 8 frames) and the FIB out of the locks.
 */
#define THEN_BACK 16  /* send the frame back to where it came from */
#define THEN_ROUTE 17 /* send it to send_addr */
#define THEN_CLONE 18 /* answer the client and send ACKs to all other members */
#define THEN_LESS 19  /* of answer_object alone: the client may not have the value (T7) */

static __always_inline int is_write(__u8 op)
{
	return op >= NQ_OP_PUT && op <= NQ_OP_ADD;
}

/* Sum of n bytes at p, followed by zeros up to a multiple of 4; n is at most NQ_SUM_CHUNK. */
static __always_inline __u64 sum_chunk(void *p, __u32 n)
{
	if (n > NQ_SUM_CHUNK)
		n = NQ_SUM_CHUNK;
	return (__u32)bpf_csum_diff(0, 0, p, (n + 3) & ~3u, 0);
}

/* Sum of the value in w, of up to 3 * NQ_SUM_CHUNK bytes. */
static __noinline __u32 sum_value(struct nq_work *w, __u32 n)
{
	__u8 *p = w->in_bytes + NQ_CHAIN_BYTES;
	__u64 sum = sum_chunk(p, n);

	if (n > NQ_SUM_CHUNK)
		sum += sum_chunk(p + NQ_SUM_CHUNK, n - NQ_SUM_CHUNK);
	if (n > 2 * NQ_SUM_CHUNK)
		sum += sum_chunk(p + 2 * NQ_SUM_CHUNK, n - 2 * NQ_SUM_CHUNK);
	return fold(sum);
}

static __always_inline __u64 little(__u64 word)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return word;
#else
	return __builtin_bswap64(word);
#endif
}

#define NQ_DIGEST_FACTOR 0x9e3779b97f4a7c15ULL

static __always_inline __u64 mix(__u64 h, __u64 word)
{
	h = (h ^ word) * NQ_DIGEST_FACTOR;
	return h ^ h >> 32;
}

/*
 * Whether the write that got a version is recorded with its digest: with another operand, a member that learns of it by a
 * resync could not compute the same.
 */
static __always_inline int has_digest(__u64 operand, __u64 version)
{
	return !operand || operand == version - 1;
}

/* chain.Digest, of the n bytes of the value in w. */
static __noinline __u64 digest_value(struct nq_work *w, __be64 operand, __u32 n)
{
	__u64 h = mix(n, bpf_be64_to_cpu(operand));

	if (n > NQ_MAX_VALUE_BYTES)
		return 0;
	*(__u64 *)(w->in_bytes + NQ_CHAIN_BYTES + n) = 0;
	for (__u32 i = 0; i < (NQ_MAX_VALUE_BYTES + 7) / 8; i++) {
		if (i * 8 >= n)
			break;
		h = mix(h, little(*(__u64 *)(w->in_bytes + NQ_CHAIN_BYTES + i * 8)));
	}
	return h ?: 1;
}

/*
 * Copies the message that stands `at` bytes into the frame into w and sums it; an outcome, or ACCEPTED. A tagged message
 * loses its mark.
 */
static __noinline __u32 load_message(struct xdp_md *ctx, __u32 at, struct nq_work *w, __u32 n, int tagged)
{
	__u64 sum;

	if (n < NQ_BASE_BYTES)
		return NQ_OUTCOME_TRUNCATED;
	if (n > NQ_MAX_MESSAGE_BYTES)
		return NQ_OUTCOME_TOO_LARGE;
	if (n < NQ_CHAIN_BYTES)
		__builtin_memset(w->in_bytes + NQ_BASE_BYTES, 0, NQ_CHAIN_BYTES - NQ_BASE_BYTES);
	if (bpf_xdp_load_bytes(ctx, at, w->in_bytes, n))
		return NQ_OUTCOME_TRUNCATED;
	if (tagged)
		w->in.base.version = NQ_WIRE_VERSION;
	w->in_bytes[n] = w->in_bytes[n + 1] = w->in_bytes[n + 2] = 0;
	w->value_bytes = 0;
	w->value_sum = 0;
	if (n > NQ_CHAIN_BYTES) {
		w->value_bytes = n - NQ_CHAIN_BYTES;
		w->value_sum = sum_value(w, n - NQ_CHAIN_BYTES);
	}
	sum = sum_words(&w->in, NQ_CHAIN_BYTES / 4);
	if (fold(sum + w->value_sum) != 0xffff)
		return NQ_OUTCOME_BAD_CHECKSUM;
	if (n >= NQ_CHAIN_BYTES)
		w->digest = digest_value(w, w->in.chain.operand, n - NQ_CHAIN_BYTES);
	return ACCEPTED;
}

static __always_inline __u32 decode_read(struct nq_work *w, __u32 n)
{
	__u8 flags = w->in.base.flags;

	if (n != NQ_BASE_BYTES || (flags && flags != NQ_FLAG_ANY && flags != NQ_FLAG_BOUNDED) ||
	    (w->in.base.detail && flags != NQ_FLAG_BOUNDED))
		return NQ_OUTCOME_BAD_REQUEST;
	return ACCEPTED;
}

static __always_inline __u32 decode_write(struct nq_work *w, __u32 n)
{
	struct nq_chain *c = &w->in.chain;
	int fixed = w->op == NQ_OP_DELETE || w->op == NQ_OP_ADD;
	int operand = w->op == NQ_OP_CAS || w->op == NQ_OP_ADD;

	if (n < NQ_CHAIN_BYTES || w->in.base.flags || w->in.base.detail)
		return NQ_OUTCOME_BAD_REQUEST;
	if ((fixed && w->value_bytes) || (!operand && c->operand) || !c->session || !c->seq || c->version ||
	    c->client_hi || c->client_lo || c->client_port || c->client_op || c->reserved_8 || c->reserved_32)
		return NQ_OUTCOME_BAD_REQUEST;
	return ACCEPTED;
}

/* FORWARD, UPDATE, RELAY: a client's message with the client's address in it. */
static __always_inline __u32 decode_passed(struct nq_work *w, __u32 n)
{
	struct nq_chain *c = &w->in.chain;
	__u8 op = c->client_op;

	if (n < NQ_CHAIN_BYTES || w->in.base.flags || w->in.base.detail)
		return NQ_OUTCOME_MALFORMED;
	if (c->client_hi || (__be32)c->client_lo != bpf_htonl(0xffff) || !c->client_port || c->reserved_8 ||
	    c->reserved_32)
		return NQ_OUTCOME_MALFORMED;
	if (w->op == NQ_OP_FORWARD && op == NQ_OP_READ) {
		if (w->value_bytes || c->session || c->seq || c->operand || c->version)
			return NQ_OUTCOME_MALFORMED;
		return ACCEPTED;
	}
	if (!is_write(op) || !c->session || !c->seq || !c->version != (w->op == NQ_OP_FORWARD))
		return NQ_OUTCOME_MALFORMED;
	if (op == NQ_OP_DELETE || (op == NQ_OP_ADD && w->op == NQ_OP_FORWARD))
		return w->value_bytes ? NQ_OUTCOME_MALFORMED : ACCEPTED;
	if (op == NQ_OP_ADD)
		return w->value_bytes != 8 ? NQ_OUTCOME_MALFORMED : ACCEPTED;
	if (w->op == NQ_OP_RELAY && w->value_bytes)
		return NQ_OUTCOME_MALFORMED;
	return ACCEPTED;
}

/* Checks a message whose checksum is right. */
static __always_inline __u32 decode(struct nq_work *w, __u32 n)
{
	if (w->in.base.hops >= NQ_MAX_HOPS)
		return NQ_OUTCOME_HOP_LIMIT;
	switch (w->op) {
	case NQ_OP_READ:
		return decode_read(w, n);
	case NQ_OP_PUT:
	case NQ_OP_DELETE:
	case NQ_OP_CAS:
	case NQ_OP_ADD:
		return decode_write(w, n);
	case NQ_OP_FORWARD:
	case NQ_OP_UPDATE:
	case NQ_OP_RELAY:
		return decode_passed(w, n);
	case NQ_OP_ACK:
	case NQ_OP_PROBE:
		if (n != NQ_VERSION_BYTES || w->in.base.flags || w->in.base.detail)
			return NQ_OUTCOME_MALFORMED;
		return ACCEPTED;
	case NQ_OP_REPLY:
		return NQ_OUTCOME_MALFORMED;
	}
	return NQ_OUTCOME_BAD_REQUEST;
}

/* Begins a message that follows from the received one: same request, shard and key, one hop more. */
static __always_inline void begin(struct nq_work *w, __u8 op, __u8 flags, __u16 detail, __be32 epoch)
{
	struct nq_base *out = &w->out.base;

	__builtin_memcpy(out, &w->in.base, sizeof(*out));
	out->op = op;
	out->flags = flags;
	out->hops++;
	out->epoch = epoch;
	out->detail = bpf_htons(detail);
	out->checksum = 0;
}

/* The chain header of a FORWARD, UPDATE or RELAY. */
static __always_inline void begin_chain(struct nq_work *w, __u64 version)
{
	struct nq_chain *out = &w->out.chain;

	__builtin_memcpy(out, &w->in.chain, sizeof(*out));
	out->version = bpf_cpu_to_be64(version);
	out->client_hi = 0;
	out->client_lo = (__u64)w->client_addr << 32 | bpf_htonl(0xffff);
	out->client_port = w->client_port;
	out->client_op = w->client_op;
}

/* Sets the checksum of a composed message of the version layout. */
static __always_inline void seal_short(struct nq_work *w)
{
	w->out.base.checksum = ~fold(sum_words(&w->out, NQ_VERSION_BYTES / 4) + w->out_value_sum);
}

/*
 * Write the composed header; they fail, with the packet as it came, if the frame can't grow. Header lengths are
 * numbers that the verifier knows.
 */
static __always_inline int put_short(struct xdp_md *ctx, struct nq_work *w, __u32 value_bytes)
{
	seal_short(w);
	if (make_room(ctx, NQ_VERSION_BYTES + value_bytes) < 0)
		return -1;
	return bpf_xdp_store_bytes(ctx, NQ_L4_END, &w->out, NQ_VERSION_BYTES);
}

static __always_inline int put_chain(struct xdp_md *ctx, struct nq_work *w, __u32 value_bytes)
{
	int moved;

	w->out.base.checksum = ~fold(sum_words(&w->out, NQ_CHAIN_BYTES / 4) + w->out_value_sum);
	moved = make_room(ctx, NQ_CHAIN_BYTES + value_bytes);
	if (moved < 0)
		return -1;
	if (moved && store_bytes(ctx, NQ_L4_END + NQ_CHAIN_BYTES, w->in_bytes + NQ_CHAIN_BYTES, w->value_bytes,
				 NQ_MAX_VALUE_BYTES))
		return -1;
	return bpf_xdp_store_bytes(ctx, NQ_L4_END, &w->out, NQ_CHAIN_BYTES);
}

static __always_inline int to_node(struct nq_work *w, __be32 addr, __be16 port, __u32 message_bytes)
{
	w->send_addr = addr;
	w->send_port = port;
	w->send_bytes = message_bytes;
	return THEN_ROUTE;
}

/* Sends the message in the frame to the client, whose request may have come through other nodes. */
static __always_inline int to_client(struct nq_work *w, __u32 message_bytes)
{
	to_node(w, w->client_addr, w->client_port, message_bytes);
	if (w->op == NQ_OP_FORWARD || w->op == NQ_OP_UPDATE || w->op == NQ_OP_RELAY)
		return THEN_ROUTE;
	return THEN_BACK;
}

static __always_inline void begin_reply(struct nq_work *w, __u16 status, __u64 version, __u8 flags, __be32 epoch)
{
	if (w->is_tail)
		flags |= NQ_FLAG_TAIL;
	begin(w, NQ_OP_REPLY, flags, status, epoch);
	w->out_short.version.version = bpf_cpu_to_be64(version);
	w->out_value_sum = 0;
}

/* Answers the client without a value. */
static __noinline int answer(struct xdp_md *ctx, struct nq_work *w, __u16 status, __u64 version, __be32 epoch)
{
	begin_reply(w, status, version, 0, epoch);
	if (put_short(ctx, w, 0))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	return to_client(w, NQ_VERSION_BYTES);
}

/*
 * Answers with the object's value, whose lock the caller holds; without it if the object is absent. XDP_PASS if the
 * frame has no room for it: the message goes up to nq_grow, or to the agent's socket, and the agent runs the program
 * on it again. THEN_LESS if the client's address has no credit for it.
 */
static __noinline int answer_object(struct xdp_md *ctx, struct nq_work *w, struct nq_object *o, __u32 status_flags,
				    __be32 epoch)
{
	__u32 n = value_bytes_of(o);

	begin_reply(w, status_flags & 0xff, o->version, status_flags >> 8, epoch);
	if (is_absent(o))
		n = 0;
	if (n)
		w->out_value_sum = o->value_sum;
	if (is_costly(n) && !w->has_credit)
		return THEN_LESS;
	if (put_short(ctx, w, n))
		return XDP_PASS;
	if (is_costly(n))
		w->costly_bytes = n;
	if (store_bytes(ctx, NQ_L4_END + NQ_VERSION_BYTES, o->value, n, nq_cell_bytes))
		return XDP_DROP;
	return to_client(w, NQ_VERSION_BYTES + n);
}

/* Answers with an 8-byte counter. */
static __noinline int answer_counter(struct xdp_md *ctx, struct nq_work *w, __u64 version, __be32 epoch)
{
	__u64 value = bpf_cpu_to_be64(w->counter);

	begin_reply(w, NQ_STATUS_OK, version, 0, epoch);
	w->out_value_sum = fold(sum_words(&value, 2));
	if (put_short(ctx, w, sizeof(value)) ||
	    bpf_xdp_store_bytes(ctx, NQ_L4_END + NQ_VERSION_BYTES, &value, sizeof(value)))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	return to_client(w, NQ_VERSION_BYTES + sizeof(value));
}

#endif
