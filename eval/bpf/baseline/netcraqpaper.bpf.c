// SPDX-License-Identifier: GPL-2.0
/*
 * One node of a chain of NetCRAQ as its papers describe it, as an XDP program. It is held to eval/baseline/netcraqpaper:
 * the same packets out, the same registers, the same counts. eval/spec/baselines.md has the rules.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "wire.gen.h"

#include "baseline.h"

#include "lock.h"

#include "packet.h"

#include "fib.h"

#include "multicast.h"

#include "pass.h"

#define NP_MESSAGE_BYTES 21

enum np_op { NP_READ, NP_READ_REPLY, NP_WRITE, NP_ACKNOWLEDGE };

/* As in eval/baseline/netcraqpaper. */
enum np_outcome {
	NP_MALFORMED,
	NP_TRANSIT,
	NP_OUT_OF_RANGE,
	NP_CLEAN_READ,
	NP_DIRTY_READ,
	NP_FORWARDED,
	NP_CLEAN_WRITE,
	NP_DIRTY_WRITE,
	NP_OVERFLOW,
	NP_COMMITTED,
	NP_ACKNOWLEDGED,
};

/* Set by the control plane. */
volatile const __be32 np_tail = 0;
volatile const __be32 np_next = 0; /* where a WRITE goes on; 0 at the tail */
volatile const __u32 np_keys = 1;
volatile const __u32 np_versions = 8;
volatile const __u32 np_group_count = 0;
volatile const __be32 np_group[NQ_MAX_CHAIN] = {}; /* the multicast group: the other nodes of the chain */

/* VALUE as two numbers of 64 bits, the more significant one first, in the CPU's byte order. */
struct np_value {
	__u64 high, low;
};

/* An object's registers: objects_store[k * n], read_index and write_index, by object. */
struct np_object {
	__u32 lock; /* odd while a writer is inside */
	__u32 read_index;
	__u32 write_index;
	__u32 reserved;
	struct np_value cells[]; /* np_versions */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* np_keys */
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct np_object) + 8 * sizeof(struct np_value)); /* np_versions */
} np_objects SEC(".maps");

struct np_descriptor {
	struct nq_clone clones[NQ_MAX_CHAIN];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NQ_DESCRIPTORS);
	__type(key, __u32);
	__type(value, struct np_descriptor);
} np_descriptors SEC(".maps");

/* The message: 162 bits from the most significant one on, then six zeros. */
struct np_message {
	__be32 head;
	__be64 middle, next;
	__u8 last;
} __attribute__((packed));
_Static_assert(sizeof(struct np_message) == NP_MESSAGE_BYTES, "162 bits");

static __always_inline struct np_message *np_message_of(struct frame *f)
{
	return (void *)(f + 1);
}

static __always_inline __u32 np_key(__u32 head, __u64 middle)
{
	return head << 2 | middle >> 62;
}

static __always_inline struct np_value np_value_of(__u64 middle, __u64 next, __u8 last)
{
	return (struct np_value){middle << 2 | next >> 62, next << 2 | last >> 6};
}

/* Writes op and value; the key stays. */
static __always_inline void np_store(struct np_message *m, enum np_op op, __u32 head, __u32 key, struct np_value v)
{
	m->head = bpf_htonl((head & 0x3fffffff) | (__u32)op << 30);
	m->middle = bpf_cpu_to_be64((__u64)key << 62 | v.high >> 2);
	m->next = bpf_cpu_to_be64(v.high << 62 | v.low >> 2);
	m->last = v.low << 6;
}

static __always_inline int np_is_tail(void)
{
	return np_tail == nq_self_addr;
}

/* Makes a value the only version: it is in the first cell, and the next write is appended behind it. */
static __always_inline void np_clean(struct np_object *o, struct np_value v)
{
	o->cells[0] = v;
	o->read_index = 0;
	o->write_index = 1;
}

/* The cell of the given number, of those that the map's values have room for. */
static __always_inline struct np_value *np_cell(struct np_object *o, __u32 number)
{
	asm volatile("" : "+r"(number)); /* else the comparison is made on a copy that the verifier can't connect */
	if (number >= np_versions)
		number = 0;
	return &o->cells[number];
}

/* The value that a read would answer and its index; false while a writer is inside. */
static __always_inline int np_snapshot(struct np_object *o, __u32 *read_index, struct np_value *v)
{
	__u32 seq = read_begin(&o->lock);

	*read_index = *(volatile __u32 *)&o->read_index;
	*v = *np_cell(o, *read_index);
	return !(seq & 1) && !was_disturbed(&o->lock, seq);
}

/* Lines 4 to 14 of Algorithm 1. */
static __always_inline int np_read(struct xdp_md *ctx, struct frame *f, __u32 head, __u32 key, struct np_object *o)
{
	struct np_value v;
	__u32 read_index;

	if (!np_snapshot(o, &read_index, &v)) {
		if (!lock(&o->lock))
			return XDP_DROP;
		read_index = o->read_index;
		v = *np_cell(o, read_index);
		unlock(&o->lock);
	}
	if (read_index && !np_is_tail()) {
		bl_count(NP_FORWARDED);
		return pass_on(ctx, f, np_tail, NP_MESSAGE_BYTES);
	}
	bl_count(read_index ? NP_DIRTY_READ : NP_CLEAN_READ);
	np_store(np_message_of(f), NP_READ_REPLY, head, key, v);
	return turn_back(f, NP_MESSAGE_BYTES);
}

/* Line 30: the ACKNOWLEDGE in the frame goes to the client and to the multicast group. */
static __always_inline int np_multicast(struct xdp_md *ctx)
{
	__u32 number = 0, n = 0, ifindex = 0, same = 1;
	struct np_descriptor *p = next_descriptor(&number) ? bpf_map_lookup_elem(&np_descriptors, &number) : 0;
	struct frame *f = data_of(ctx);

	if (!p || (void *)(f + 1) > end_of(ctx))
		return XDP_DROP;
	for (int i = 0; i < NQ_MAX_CHAIN; i++)
		p->clones[i].ifindex = 0;
	if (!add_clone(ctx, &p->clones[0], ip_of(f)->saddr, udp_of(f)->source | NQ_IS_ANSWER))
		n = 1;
	ifindex = p->clones[0].ifindex;
	for (int i = 0; i < NQ_MAX_CHAIN - 1; i++) {
		struct nq_clone *clone = &p->clones[i + 1];

		if (i >= np_group_count)
			break;
		if (add_clone(ctx, clone, np_group[i], nq_self_port))
			continue;
		if (!ifindex)
			ifindex = clone->ifindex;
		same &= ifindex == clone->ifindex;
		n++;
	}
	return n ? multicast(ctx, number, n, same ? ifindex : 0) : XDP_DROP;
}

/* Lines 15 to 29; an outcome. */
static __always_inline __u32 np_write_locked(struct np_object *o, struct np_value v)
{
	__u32 at = o->write_index, outcome = NP_DIRTY_WRITE;

	if (!at) {
		np_clean(o, v);
		outcome = NP_CLEAN_WRITE;
	} else if (at >= np_versions) {
		return NP_OVERFLOW;
	} else {
		*np_cell(o, at) = v;
		o->read_index = at;
		o->write_index = at + 1;
	}
	if (!np_is_tail())
		return outcome;
	np_clean(o, v);
	return NP_COMMITTED;
}

static __always_inline int np_write(struct xdp_md *ctx, struct frame *f, __u32 head, __u32 key, struct np_object *o,
				    struct np_value v)
{
	__u32 outcome;

	if (!lock(&o->lock))
		return XDP_DROP;
	outcome = np_write_locked(o, v);
	unlock(&o->lock);
	bl_count(outcome);
	if (outcome == NP_OVERFLOW)
		return XDP_DROP;
	if (!np_is_tail())
		return pass_on(ctx, f, np_next, NP_MESSAGE_BYTES);
	np_store(np_message_of(f), NP_ACKNOWLEDGE, head, key, v);
	return np_multicast(ctx);
}

static __always_inline int np_handle(struct xdp_md *ctx)
{
	struct np_message *m;
	struct np_object *o;
	__u64 middle, next;
	struct frame *f;
	__u32 head, key;
	__u8 last;

	if (resize(ctx, NP_MESSAGE_BYTES)) /* remove the padding */
		return XDP_DROP;
	f = data_of(ctx);
	m = np_message_of(f);
	if ((void *)(m + 1) > end_of(ctx))
		return bl_drop(NP_MALFORMED);
	head = bpf_ntohl(m->head);
	middle = bpf_be64_to_cpu(m->middle);
	next = bpf_be64_to_cpu(m->next);
	last = m->last;
	if (last & 0x3f || head >> 30 == NP_READ_REPLY)
		return bl_drop(NP_MALFORMED);
	key = np_key(head, middle);
	if (key >= np_keys)
		return bl_drop(NP_OUT_OF_RANGE);
	o = bpf_map_lookup_elem(&np_objects, &key);
	if (!o)
		return XDP_DROP;
	switch (head >> 30) {
	case NP_READ:
		return np_read(ctx, f, head, key, o);
	case NP_WRITE:
		return np_write(ctx, f, head, key, o, np_value_of(middle, next, last));
	}
	if (!lock(&o->lock))
		return XDP_DROP;
	np_clean(o, np_value_of(middle, next, last));
	unlock(&o->lock);
	return bl_drop(NP_ACKNOWLEDGED);
}

SEC("xdp")
int np_ingress(struct xdp_md *ctx)
{
	__u32 message_bytes = 0;

	switch (parse(ctx, &message_bytes)) {
	case PARSED_PASS:
		return XDP_PASS;
	case PARSED_TRANSIT:
		return transit(ctx);
	case PARSED_OURS:
		break;
	default:
		return bl_drop(NP_MALFORMED);
	}
	if (message_bytes != NP_MESSAGE_BYTES)
		return bl_drop(NP_MALFORMED);
	return np_handle(ctx);
}

/* Turns the frame into the descriptor's next clone for this device; frames without a frame tag pass. */
static __always_inline int np_clone(struct xdp_md *ctx, __u32 ifindex)
{
	struct frame *f = data_of(ctx);
	struct nq_clone *clone;
	struct np_descriptor *p;
	__u32 number;

	if (!read_frame_tag(ctx, &number) || (void *)(f + 1) > end_of(ctx))
		return XDP_PASS;
	p = bpf_map_lookup_elem(&np_descriptors, &number);
	clone = p ? take_clone(p->clones, ifindex) : 0;
	if (!clone)
		return XDP_DROP;
	write_headers(f, clone, NP_MESSAGE_BYTES);
	return XDP_PASS;
}

SEC("xdp/devmap")
int np_egress(struct xdp_md *ctx)
{
	return np_clone(ctx, ctx->egress_ifindex);
}

/* The egress program for tests: BPF_PROG_RUN takes no program of the devmap kind. */
SEC("xdp")
int np_egress_test(struct xdp_md *ctx)
{
	return np_clone(ctx, nq_test_ifindex);
}

/* Keeps the types in the object's BTF, where Go compares them. */
const struct np_object *keep_object __attribute__((unused));
const enum np_outcome keep_outcome __attribute__((unused)) = NP_MALFORMED;

char _license[] SEC("license") = "GPL";
