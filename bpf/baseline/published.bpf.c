// SPDX-License-Identifier: GPL-2.0
/*
 * One node of a chain of NetCRAQ as its papers describe it, as an XDP program. It is held to internal/eval/baseline/published:
 * the same packets out, the same registers, the same counts. spec/baselines.md says what it does.
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

#include "fan.h"

#include "pass.h"

#define PB_MESSAGE_BYTES 21

enum pb_op { PB_READ, PB_READ_REPLY, PB_WRITE, PB_ACKNOWLEDGE };

/* As in internal/eval/baseline/published. */
enum pb_outcome {
	PB_MALFORMED,
	PB_TRANSIT,
	PB_OUT_OF_RANGE,
	PB_CLEAN_READ,
	PB_DIRTY_READ,
	PB_FORWARDED,
	PB_CLEAN_WRITE,
	PB_DIRTY_WRITE,
	PB_OVERFLOW,
	PB_COMMITTED,
	PB_ACKNOWLEDGED,
};

/* What the control plane installs. */
volatile const __be32 pb_tail = 0;
volatile const __be32 pb_next = 0; /* where a WRITE goes on; 0 at the tail */
volatile const __u32 pb_keys = 1;
volatile const __u32 pb_versions = 8;
volatile const __u32 pb_group_count = 0;
volatile const __be32 pb_group[NQ_MAX_CHAIN] = {}; /* the multicast group: the other nodes of the chain */

/* VALUE as two numbers of 64 bits, the more significant one first, in the CPU's byte order. */
struct pb_value {
	__u64 high, low;
};

/* An object's registers: objects_store[k * n], read_index and write_index, by object. */
struct pb_object {
	__u32 lock; /* odd while a writer is inside */
	__u32 read_index;
	__u32 write_index;
	__u32 reserved;
	struct pb_value cells[]; /* pb_versions */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* pb_keys */
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct pb_object) + 8 * sizeof(struct pb_value)); /* pb_versions */
} pb_objects SEC(".maps");

struct pb_plan {
	struct nq_copy copies[NQ_MAX_CHAIN];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NQ_PLANS);
	__type(key, __u32);
	__type(value, struct pb_plan);
} pb_plans SEC(".maps");

/* The message: 162 bits from the most significant one on, then six zeros. */
struct pb_message {
	__be32 head;
	__be64 middle, next;
	__u8 last;
} __attribute__((packed));
_Static_assert(sizeof(struct pb_message) == PB_MESSAGE_BYTES, "162 bits");

static __always_inline struct pb_message *pb_message_of(struct frame *f)
{
	return (void *)(f + 1);
}

static __always_inline __u32 pb_key(__u32 head, __u64 middle)
{
	return head << 2 | middle >> 62;
}

static __always_inline struct pb_value pb_value_of(__u64 middle, __u64 next, __u8 last)
{
	return (struct pb_value){middle << 2 | next >> 62, next << 2 | last >> 6};
}

/* Writes op and value; the key stays. */
static __always_inline void pb_store(struct pb_message *m, enum pb_op op, __u32 head, __u32 key, struct pb_value v)
{
	m->head = bpf_htonl((head & 0x3fffffff) | (__u32)op << 30);
	m->middle = bpf_cpu_to_be64((__u64)key << 62 | v.high >> 2);
	m->next = bpf_cpu_to_be64(v.high << 62 | v.low >> 2);
	m->last = v.low << 6;
}

static __always_inline int pb_is_tail(void)
{
	return pb_tail == nq_self_addr;
}

/* Makes a value the only version: it is in the first cell, and the next write is appended behind it. */
static __always_inline void pb_clean(struct pb_object *o, struct pb_value v)
{
	o->cells[0] = v;
	o->read_index = 0;
	o->write_index = 1;
}

/* The cell of the given number, of those that the map's values have room for. */
static __always_inline struct pb_value *pb_cell(struct pb_object *o, __u32 number)
{
	asm volatile("" : "+r"(number)); /* else the comparison is made on a copy that the verifier can't connect */
	if (number >= pb_versions)
		number = 0;
	return &o->cells[number];
}

/* The value that a read would answer and its index; false while a writer is inside. */
static __always_inline int pb_snapshot(struct pb_object *o, __u32 *read_index, struct pb_value *v)
{
	__u32 seq = *(volatile __u32 *)&o->lock;

	load_fence();
	*read_index = *(volatile __u32 *)&o->read_index;
	*v = *pb_cell(o, *read_index);
	load_fence();
	return !(seq & 1) && *(volatile __u32 *)&o->lock == seq;
}

/* Lines 4 to 14 of Algorithm 1. */
static __always_inline int pb_read(struct xdp_md *ctx, struct frame *f, __u32 head, __u32 key, struct pb_object *o)
{
	struct pb_value v;
	__u32 read_index;

	if (!pb_snapshot(o, &read_index, &v)) {
		if (!lock(&o->lock))
			return XDP_DROP;
		read_index = o->read_index;
		v = *pb_cell(o, read_index);
		unlock(&o->lock);
	}
	if (read_index && !pb_is_tail()) {
		bl_count(PB_FORWARDED);
		return pass_on(ctx, f, pb_tail, PB_MESSAGE_BYTES);
	}
	bl_count(read_index ? PB_DIRTY_READ : PB_CLEAN_READ);
	pb_store(pb_message_of(f), PB_READ_REPLY, head, key, v);
	return turn_back(f, PB_MESSAGE_BYTES);
}

/* Line 30: the ACKNOWLEDGE in the frame goes to the client and to the multicast group. */
static __always_inline int pb_multicast(struct xdp_md *ctx)
{
	__u32 number = 0, n = 0, ifindex = 0, same = 1;
	struct pb_plan *p = next_plan(&number) ? bpf_map_lookup_elem(&pb_plans, &number) : 0;
	struct frame *f = data_of(ctx);

	if (!p || (void *)(f + 1) > end_of(ctx))
		return XDP_DROP;
	for (int i = 0; i < NQ_MAX_CHAIN; i++)
		p->copies[i].ifindex = 0;
	if (!plan_copy(ctx, &p->copies[0], ip_of(f)->saddr, udp_of(f)->source | NQ_IS_ANSWER))
		n = 1;
	ifindex = p->copies[0].ifindex;
	for (int i = 0; i < NQ_MAX_CHAIN - 1; i++) {
		struct nq_copy *copy = &p->copies[i + 1];

		if (i >= pb_group_count)
			break;
		if (plan_copy(ctx, copy, pb_group[i], nq_self_port))
			continue;
		if (!ifindex)
			ifindex = copy->ifindex;
		same &= ifindex == copy->ifindex;
		n++;
	}
	return n ? fan_out(ctx, number, n, same ? ifindex : 0) : XDP_DROP;
}

/* Lines 15 to 29; an outcome. */
static __always_inline __u32 pb_write_locked(struct pb_object *o, struct pb_value v)
{
	__u32 at = o->write_index, outcome = PB_DIRTY_WRITE;

	if (!at) {
		pb_clean(o, v);
		outcome = PB_CLEAN_WRITE;
	} else if (at >= pb_versions) {
		return PB_OVERFLOW;
	} else {
		*pb_cell(o, at) = v;
		o->read_index = at;
		o->write_index = at + 1;
	}
	if (!pb_is_tail())
		return outcome;
	pb_clean(o, v);
	return PB_COMMITTED;
}

static __always_inline int pb_write(struct xdp_md *ctx, struct frame *f, __u32 head, __u32 key, struct pb_object *o,
				    struct pb_value v)
{
	__u32 outcome;

	if (!lock(&o->lock))
		return XDP_DROP;
	outcome = pb_write_locked(o, v);
	unlock(&o->lock);
	bl_count(outcome);
	if (outcome == PB_OVERFLOW)
		return XDP_DROP;
	if (!pb_is_tail())
		return pass_on(ctx, f, pb_next, PB_MESSAGE_BYTES);
	pb_store(pb_message_of(f), PB_ACKNOWLEDGE, head, key, v);
	return pb_multicast(ctx);
}

static __always_inline int pb_handle(struct xdp_md *ctx)
{
	struct pb_message *m;
	struct pb_object *o;
	__u64 middle, next;
	struct frame *f;
	__u32 head, key;
	__u8 last;

	if (resize(ctx, PB_MESSAGE_BYTES)) /* what pads a frame */
		return XDP_DROP;
	f = data_of(ctx);
	m = pb_message_of(f);
	if ((void *)(m + 1) > end_of(ctx))
		return bl_drop(PB_MALFORMED);
	head = bpf_ntohl(m->head);
	middle = bpf_be64_to_cpu(m->middle);
	next = bpf_be64_to_cpu(m->next);
	last = m->last;
	if (last & 0x3f || head >> 30 == PB_READ_REPLY)
		return bl_drop(PB_MALFORMED);
	key = pb_key(head, middle);
	if (key >= pb_keys)
		return bl_drop(PB_OUT_OF_RANGE);
	o = bpf_map_lookup_elem(&pb_objects, &key);
	if (!o)
		return XDP_DROP;
	switch (head >> 30) {
	case PB_READ:
		return pb_read(ctx, f, head, key, o);
	case PB_WRITE:
		return pb_write(ctx, f, head, key, o, pb_value_of(middle, next, last));
	}
	if (!lock(&o->lock))
		return XDP_DROP;
	pb_clean(o, pb_value_of(middle, next, last));
	unlock(&o->lock);
	return bl_drop(PB_ACKNOWLEDGED);
}

SEC("xdp")
int pb_ingress(struct xdp_md *ctx)
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
		return bl_drop(PB_MALFORMED);
	}
	if (message_bytes != PB_MESSAGE_BYTES)
		return bl_drop(PB_MALFORMED);
	return pb_handle(ctx);
}

/* Turns one clone into the plan's next copy for this device; frames without a stamp pass. */
static __always_inline int pb_copy(struct xdp_md *ctx, __u32 ifindex)
{
	struct frame *f = data_of(ctx);
	struct nq_copy *copy;
	struct pb_plan *p;
	__u32 number;

	if (!read_stamp(ctx, &number) || (void *)(f + 1) > end_of(ctx))
		return XDP_PASS;
	p = bpf_map_lookup_elem(&pb_plans, &number);
	copy = p ? take_copy(p->copies, ifindex) : 0;
	if (!copy)
		return XDP_DROP;
	write_headers(f, copy, PB_MESSAGE_BYTES);
	return XDP_PASS;
}

SEC("xdp/devmap")
int pb_egress(struct xdp_md *ctx)
{
	return pb_copy(ctx, ctx->egress_ifindex);
}

/* The egress program for tests: BPF_PROG_RUN takes no program of the devmap kind. */
SEC("xdp")
int pb_egress_test(struct xdp_md *ctx)
{
	return pb_copy(ctx, nq_test_ifindex);
}

/* Keeps the types in the object's BTF, where Go compares them. */
const struct pb_object *keep_object __attribute__((unused));
const enum pb_outcome keep_outcome __attribute__((unused)) = PB_MALFORMED;

char _license[] SEC("license") = "GPL";
