// SPDX-License-Identifier: GPL-2.0
/*
 * One switch of NetChain as its paper describes it, as an XDP program: chain replication with the chain's addresses in the packet.
 * Tests compare its packets, registers and counts with eval/baseline/netchain. eval/spec/baselines.md has the rules.
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

#include "pass.h"

#define NC_ADDRESS_BYTES 4
#define NC_MAX_LIST (NQ_MAX_CHAIN - 1)
#define NC_COMPARE_BYTES 16
#define NC_WIDE_OPS 16 /* added to the number of an op where SEQ has 32 bits */

enum nc_op { NC_READ = 1, NC_WRITE, NC_CAS, NC_READ_REPLY, NC_WRITE_REPLY, NC_CAS_FAIL, NC_NOT_FOUND };

/* As in eval/baseline/netchain. */
enum nc_outcome {
	NC_MALFORMED,
	NC_TRANSIT,
	NC_REDIRECTED,
	NC_BLOCKED,
	NC_ANSWERED,
	NC_MISSING,
	NC_ORDERED,
	NC_ACCEPTED,
	NC_STALE,
	NC_REFUSED,
};

enum nc_action { NC_SKIP = 1, NC_BLOCK, NC_REPLACE };

volatile const __u8 nc_wide = 0;	 /* SEQ has 32 bits */
volatile const __u32 nc_cell_bytes = 16; /* longest value; the value size of nc_cells follows it */
volatile const __u32 nc_groups = 1;	 /* virtual groups */

/* How many failure rules there are: none, and packets in transit are not looked at. */
__u32 nc_rule_count = 0;

/* The message before the value. */
struct nc_head {
	__u8 op;
	__u8 sc;
	__be16 first; /* SEQ, or of 32 bits the length of the value */
	union {
		struct {
			__be16 value_bytes;
			__be16 reserved;
		};
		__be32 wide_seq;
	};
	__be64 key[2];
};
#define NC_HEAD_BYTES sizeof(struct nc_head)

/* Places of keys, written by the control plane alone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, 16);
	__type(value, __u32);
} nc_index SEC(".maps");

/* A place in the register arrays. */
struct nc_cell {
	__u32 lock; /* odd while a writer is inside */
	__u32 seq;
	__u32 value_bytes;
	__u32 reserved;
	__u8 value[]; /* nc_cell_bytes */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct nc_cell) + 16);
} nc_cells SEC(".maps");

/* The packets of a failure rule: those of a virtual group to an address. */
struct nc_target {
	__be32 to;
	__u32 group;
};

struct nc_rule {
	__u32 action; /* of NC_SKIP, NC_BLOCK, NC_REPLACE */
	__be32 by;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct nc_target);
	__type(value, struct nc_rule);
} nc_rules SEC(".maps");

/* A message as read from the frame. */
struct nc_message {
	__u32 op;
	__u32 sc;
	__u32 seq;
	__u32 value_bytes;
};

static __always_inline struct nc_head *nc_head_of(struct xdp_md *ctx)
{
	return data_of(ctx) + NQ_L4_END;
}

/* Reads the head of a message of so many bytes; false if it is none of this node's width. */
static __always_inline int nc_decode(const struct nc_head *h, __u32 message_bytes, struct nc_message *m)
{
	m->op = h->op - (nc_wide ? NC_WIDE_OPS : 0);
	m->sc = h->sc;
	m->seq = nc_wide ? bpf_ntohl(h->wide_seq) : bpf_ntohs(h->first);
	m->value_bytes = bpf_ntohs(nc_wide ? h->first : h->value_bytes);
	return m->op - 1 < NC_NOT_FOUND && m->sc <= NC_MAX_LIST && m->value_bytes <= NQ_MAX_VALUE_BYTES &&
	       (nc_wide || !h->reserved) && message_bytes == NC_HEAD_BYTES + m->value_bytes + m->sc * NC_ADDRESS_BYTES;
}

/* Writes all of the head but the key. */
static __always_inline void nc_encode(struct nc_head *h, const struct nc_message *m)
{
	__u32 op = m->op + (nc_wide ? NC_WIDE_OPS : 0);

	if (nc_wide) {
		*(__be32 *)h = bpf_htonl(op << 24 | m->sc << 16 | m->value_bytes);
		h->wide_seq = bpf_htonl(m->seq);
	} else {
		*(__be32 *)h = bpf_htonl(op << 24 | m->sc << 16 | (m->seq & 0xffff));
		h->wide_seq = bpf_htonl(m->value_bytes << 16);
	}
}

/* The list of the message in the frame, or 0 if the frame ends before it begins. */
static __always_inline __be32 *nc_list(struct xdp_md *ctx, __u32 value_bytes)
{
	__be32 *list;

	value_bytes &= 0x7ff;
	list = (void *)nc_head_of(ctx) + NC_HEAD_BYTES + value_bytes;
	return (void *)(list + 1) <= end_of(ctx) ? list : 0;
}
_Static_assert(NQ_MAX_VALUE_BYTES <= 0x7ff, "nc_list masks lengths");

/*
 * Takes the first address out of the list of the message in the frame, whose head has been read, and writes the head
 * anew; the frame's end still has to follow. 0 if the list is empty.
 */
static __always_inline __be32 nc_pop(struct xdp_md *ctx, struct nc_message *m)
{
	__be32 *list = nc_list(ctx, m->value_bytes);
	__be32 next;

	if (!m->sc || !list)
		return 0;
	next = list[0];
	for (int i = 1; i < NC_MAX_LIST; i++) {
		if (i >= m->sc || (void *)(list + i + 1) > end_of(ctx))
			break;
		list[i - 1] = list[i];
	}
	m->sc--;
	return next;
}

static __always_inline __u32 nc_message_bytes(const struct nc_message *m)
{
	return NC_HEAD_BYTES + m->value_bytes + m->sc * NC_ADDRESS_BYTES;
}

/* Makes the frame as long as the message and writes its head; the frame, or 0. */
static __always_inline struct frame *nc_put(struct xdp_md *ctx, const struct nc_message *m)
{
	struct frame *f;

	if (resize(ctx, nc_message_bytes(m)))
		return 0;
	f = data_of(ctx);
	if ((void *)(f + 1) + NC_HEAD_BYTES > end_of(ctx))
		return 0;
	nc_encode(nc_head_of(ctx), m);
	return f;
}

/* Makes a WRITE_REPLY of the message and sends it to the packet's source. */
static __always_inline int nc_answer_write(struct xdp_md *ctx, struct nc_message *m)
{
	struct frame *f;

	m->op = NC_WRITE_REPLY;
	m->sc = 0;
	f = nc_put(ctx, m);
	return f ? answer_client(ctx, f, nc_message_bytes(m)) : XDP_DROP;
}

/* Result of a lookup of failure rules. */
enum nc_way { NC_NO_RULE, NC_GO, NC_STOP, NC_ANSWER };

/* A message on its way along failure rules. */
struct nc_path {
	struct xdp_md *ctx;
	struct nc_message m;
	__be32 dst;
	__u32 group;
	enum nc_way way;
};

/* Follows one rule of the destination; nodes that are skipped are taken from the list. 1 if there is no more to follow. */
static long nc_follow_rule(__u32 i, struct nc_path *p)
{
	struct nc_target target = {p->dst, p->group};
	struct nc_rule *rule = bpf_map_lookup_elem(&nc_rules, &target);

	if (!rule)
		return 1;
	p->way = NC_GO;
	if (rule->action == NC_REPLACE) {
		p->dst = rule->by;
		return 1;
	}
	if (rule->action == NC_BLOCK || (!p->m.sc && (p->m.op != NC_WRITE || !p->m.seq)))
		p->way = NC_STOP;
	else if (!p->m.sc)
		p->way = NC_ANSWER;
	else
		p->dst = nc_pop(p->ctx, &p->m);
	return p->way != NC_GO;
}

/* Follows the failure rules of *dst for a key with this end. Returns the action; *dst becomes the new destination. */
static __always_inline enum nc_way nc_follow_rules(struct xdp_md *ctx, struct nc_message *m, __be32 *dst, __u32 key_end)
{
	struct nc_path p = {.ctx = ctx, .m = *m, .dst = *dst, .group = key_end % nc_groups, .way = NC_NO_RULE};

	bpf_loop(NC_MAX_LIST + 1, nc_follow_rule, &p, 0);
	*m = p.m;
	*dst = p.dst;
	return p.way;
}

/* The last two bytes of the key in the frame, which say its group. */
static __always_inline __u32 nc_key_end(const struct nc_head *h)
{
	return (__u32)bpf_be64_to_cpu(h->key[1]) & 0xffff;
}

/* Puts another destination into the frame; the header's sum still has to follow. */
static __always_inline int nc_set_destination(struct xdp_md *ctx, __be32 dst)
{
	struct frame *f = data_of(ctx);

	if ((void *)(f + 1) > end_of(ctx))
		return 0;
	ip_of(f)->daddr = dst;
	return 1;
}

/* Sends the message on to dst. */
static __always_inline int nc_go(struct xdp_md *ctx, struct nc_message *m, __be32 dst)
{
	struct frame *f = nc_put(ctx, m);

	return f ? pass_on(ctx, f, dst, nc_message_bytes(m)) : XDP_DROP;
}

/* Sends a WRITE that this node has applied on, to the next of its list or where failure rules say. */
static __noinline int nc_send_on(struct xdp_md *ctx, struct nc_message *m, __u32 key_end, __u32 outcome)
{
	enum nc_way way = NC_NO_RULE;
	__be32 dst;

	if (!m)
		return XDP_DROP;
	dst = nc_pop(ctx, m);
	if (nc_rule_count)
		way = nc_follow_rules(ctx, m, &dst, key_end);
	if (way == NC_STOP)
		return bl_drop(NC_BLOCKED);
	bl_count(outcome);
	if (way != NC_ANSWER)
		return nc_go(ctx, m, dst);
	if (!nc_set_destination(ctx, dst)) /* the answer is in the name of the node that is skipped */
		return XDP_DROP;
	return nc_answer_write(ctx, m);
}

/* A cell's header and the first bytes of its value, as they were at one moment. */
struct nc_snapshot {
	__u64 small[2];
	__u32 lock, seq, value_bytes;
};

static __always_inline int nc_undisturbed(const struct nc_cell *cell, const struct nc_snapshot *s)
{
	return !was_disturbed(&cell->lock, s->lock);
}

static __always_inline int nc_take(const struct nc_cell *cell, struct nc_snapshot *s)
{
	s->lock = read_begin(&cell->lock);
	s->seq = cell->seq;
	s->value_bytes = cell->value_bytes;
	s->small[0] = *(__u64 *)cell->value;
	s->small[1] = *(__u64 *)(cell->value + 8);
	return !(s->lock & 1) && s->value_bytes <= nc_cell_bytes && nc_undisturbed(cell, s);
}

/* Fields of the request that the answer repeats. */
struct nc_request {
	__be64 key[2];
	__be32 client;
	__u32 ports;
	struct macs macs;
};

/* Writes an answer of n bytes of value over the frame, but for the value; 0 if there is no room. */
static __always_inline int nc_write_answer(struct xdp_md *ctx, const struct nc_request *r, enum nc_op op, __u32 seq,
					   __u32 n)
{
	struct nc_message m = {.op = op, .seq = seq, .value_bytes = n};
	struct nc_head *h;
	struct frame *f;

	if (make_room(ctx, NC_HEAD_BYTES + n) < 0)
		return 0;
	f = data_of(ctx);
	h = nc_head_of(ctx);
	if ((void *)(h + 1) > end_of(ctx))
		return 0;
	store_swapped(&f->eth, r->macs);
	write_l3_from(f, nq_self_addr, r->client, r->ports, NC_HEAD_BYTES + n);
	nc_encode(h, &m);
	h->key[0] = r->key[0];
	h->key[1] = r->key[1];
	return 1;
}

/* Writes the value; false if there is no room. */
static __always_inline int nc_write_value(struct xdp_md *ctx, const struct nc_cell *cell, const struct nc_snapshot *s)
{
	__u64 *out = (void *)nc_head_of(ctx) + NC_HEAD_BYTES;
	__u32 n = s->value_bytes;

	if (n == sizeof(s->small)) {
		if ((void *)(out + 2) > end_of(ctx))
			return 0;
		out[0] = s->small[0];
		out[1] = s->small[1];
		return 1;
	}
	asm volatile("" : "+r"(n)); /* else the comparisons are spread over copies that the verifier can't connect */
	return !store_bytes(ctx, NQ_L4_END + NC_HEAD_BYTES, cell->value, n, nc_cell_bytes);
}

#define NC_TRIES 4

/* Answers the request with the cell's value, without a lock. cell may be 0: NOT_FOUND. */
static __noinline int nc_answer(struct xdp_md *ctx, struct nc_cell *cell, __u32 op, __u32 seq)
{
	struct nc_head *h = nc_head_of(ctx);
	struct frame *f = data_of(ctx);
	struct nc_snapshot s = {.seq = seq};
	struct nc_request r;

	if ((void *)(h + 1) > end_of(ctx))
		return XDP_DROP;
	r = (struct nc_request){{h->key[0], h->key[1]}, ip_of(f)->saddr, swapped_ports(f), load_macs(&f->eth)};
	for (int i = 0; i < NC_TRIES; i++) {
		if (cell && !nc_take(cell, &s))
			continue;
		if (!nc_write_answer(ctx, &r, op, s.seq, s.value_bytes))
			return XDP_DROP;
		if (!cell)
			return XDP_TX;
		if (!nc_write_value(ctx, cell, &s))
			return XDP_DROP;
		if (s.value_bytes == sizeof(s.small) || nc_undisturbed(cell, &s))
			return XDP_TX;
	}
	return XDP_DROP;
}

/* Stores the value that stands in the frame; false if the frame is too short. */
static __always_inline int nc_store(struct xdp_md *ctx, struct nc_cell *cell, __u32 n)
{
	__u64 *in = (void *)nc_head_of(ctx) + NC_HEAD_BYTES;

	cell->value_bytes = n;
	if (n == 16) {
		if ((void *)(in + 2) > end_of(ctx))
			return 0;
		*(__u64 *)cell->value = in[0];
		*(__u64 *)(cell->value + 8) = in[1];
		return 1;
	}
	asm volatile("" : "+r"(n));
	return !load_bytes(ctx, NQ_L4_END + NC_HEAD_BYTES, cell->value, n, nc_cell_bytes);
}

/*
 * Numbers a write that comes from a client, accepts a newer one; an outcome. The cell is locked.
 */
static __always_inline __u32 nc_apply(struct xdp_md *ctx, struct nc_message *m, struct nc_cell *cell)
{
	__u32 outcome = NC_ACCEPTED;

	if (!m->seq) {
		m->seq = nc_wide ? cell->seq + 1 : (cell->seq + 1) & 0xffff;
		outcome = NC_ORDERED;
	} else if (m->seq <= cell->seq) {
		return NC_STALE;
	}
	cell->seq = m->seq;
	return nc_store(ctx, cell, m->value_bytes) ? outcome : NC_MALFORMED;
}

/* Makes the frame's CAS a WRITE of its new value if the cell, which is locked, holds the value expected. */
static __always_inline int nc_compare(struct xdp_md *ctx, struct nc_message *m, const struct nc_cell *cell)
{
	__u64 *value = (void *)nc_head_of(ctx) + NC_HEAD_BYTES;
	__be32 *list = (void *)(value + 4);

	if ((void *)(value + 4) > end_of(ctx) || cell->value_bytes != NC_COMPARE_BYTES ||
	    *(__u64 *)cell->value != value[0] || *(__u64 *)(cell->value + 8) != value[1])
		return 0;
	value[0] = value[2];
	value[1] = value[3];
	for (int i = 0; i < NC_MAX_LIST; i++) {
		if (i >= m->sc || (void *)(list + i + 1) > end_of(ctx))
			break;
		list[i - NC_COMPARE_BYTES / NC_ADDRESS_BYTES] = list[i];
	}
	m->op = NC_WRITE;
	m->value_bytes = NC_COMPARE_BYTES;
	return 1;
}

static __always_inline int nc_write(struct xdp_md *ctx, struct nc_message *m, struct nc_cell *cell, __u32 key_end)
{
	__u32 outcome = NC_REFUSED;

	if (m->value_bytes > nc_cell_bytes && m->op == NC_WRITE)
		return bl_drop(NC_MALFORMED);
	if (!lock(&cell->lock))
		return XDP_DROP;
	if (m->op == NC_WRITE || nc_compare(ctx, m, cell))
		outcome = nc_apply(ctx, m, cell);
	unlock(&cell->lock);
	if (outcome == NC_REFUSED) {
		bl_count(outcome);
		return nc_answer(ctx, cell, NC_CAS_FAIL, 0);
	}
	if (outcome == NC_STALE || outcome == NC_MALFORMED)
		return bl_drop(outcome);
	if (m->sc)
		return nc_send_on(ctx, m, key_end, outcome);
	bl_count(outcome);
	return nc_answer_write(ctx, m);
}

/* A message that is for this node. */
static __always_inline int nc_handle(struct xdp_md *ctx, struct nc_message *m)
{
	struct nc_head *h = nc_head_of(ctx);
	struct nc_cell *cell = 0;
	__u32 *slot, key_end;

	if ((void *)(h + 1) > end_of(ctx) || m->op > NC_CAS)
		return bl_drop(NC_MALFORMED);
	key_end = nc_key_end(h);
	slot = bpf_map_lookup_elem(&nc_index, h->key);
	if (slot)
		cell = bpf_map_lookup_elem(&nc_cells, slot);
	if (!cell) {
		bl_count(NC_MISSING);
		return nc_answer(ctx, 0, NC_NOT_FOUND, m->seq);
	}
	if (m->op == NC_READ) {
		if (m->value_bytes)
			return bl_drop(NC_MALFORMED);
		bl_count(NC_ANSWERED);
		return nc_answer(ctx, cell, NC_READ_REPLY, 0);
	}
	if (m->op == NC_CAS && (m->value_bytes != 2 * NC_COMPARE_BYTES || m->seq))
		return bl_drop(NC_MALFORMED);
	return nc_write(ctx, m, cell, key_end);
}

/* A packet to another node, where there are failure rules. */
static __noinline int nc_divert(struct xdp_md *ctx)
{
	struct nc_head *h = nc_head_of(ctx);
	struct frame *f = data_of(ctx);
	__u32 message_bytes = 0;
	struct nc_message m;
	__be32 dst;

	if ((void *)(h + 1) > end_of(ctx) || udp_of(f)->dest != nq_self_port ||
	    measure(ctx, f, &message_bytes) != PARSED_OURS || !nc_decode(h, message_bytes, &m))
		return transit(ctx);
	dst = ip_of(f)->daddr;
	switch (nc_follow_rules(ctx, &m, &dst, nc_key_end(h))) {
	case NC_NO_RULE:
		return transit(ctx);
	case NC_STOP:
		return bl_drop(NC_BLOCKED);
	case NC_ANSWER:
		bl_count(NC_REDIRECTED);
		return nc_set_destination(ctx, dst) ? nc_answer_write(ctx, &m) : XDP_DROP;
	case NC_GO:
		break;
	}
	if (dst == nq_self_addr)
		return nc_set_destination(ctx, dst) ? nc_handle(ctx, &m) : XDP_DROP;
	bl_count(NC_REDIRECTED);
	return nc_go(ctx, &m, dst);
}

SEC("xdp")
int nc_ingress(struct xdp_md *ctx)
{
	struct nc_head *h = nc_head_of(ctx);
	__u32 message_bytes = 0;
	struct nc_message m;

	switch (parse(ctx, &message_bytes)) {
	case PARSED_PASS:
		return XDP_PASS;
	case PARSED_TRANSIT:
		return nc_rule_count ? nc_divert(ctx) : transit(ctx);
	case PARSED_OURS:
		break;
	default:
		return bl_drop(NC_MALFORMED);
	}
	if ((void *)(h + 1) > end_of(ctx) || !nc_decode(h, message_bytes, &m))
		return bl_drop(NC_MALFORMED);
	return nc_handle(ctx, &m);
}

/* Keeps the types in the object's BTF, where Go compares them. */
const struct nc_cell *keep_cell __attribute__((unused));
const enum nc_outcome keep_outcome __attribute__((unused)) = NC_MALFORMED;

char _license[] SEC("license") = "GPL";
