/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads by processes of the node's machine, without a packet (R6). A process loads its own copy of the program, on the
 * node's tables, and runs it at a system call. It gets the results through memory that it shares with the program.
 *
 * The kernel may preempt such a program, and may move on its CPU to programs of packets meanwhile, so it relies on no
 * order in time: it reads the configuration before and after the object, and compares the key once it knows the object's
 * sequence number. MAP_LOOKUP_ELEM would copy without the sequence lock.
 */
#ifndef NQ_NEARBY_H
#define NQ_NEARBY_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "lock.h"
#include "objects.h"
#include "read.h"
#include "state.h"
#include "tables.h"

enum nq_nearby_limit { NQ_NEARBY_READS = 64 }; /* records of an area */

/* One read; its value follows, in whole words. */
struct nq_nearby_record {
	__u8 key[16];
	__u64 version;
	__be32 epoch;
	__u16 value_bytes;
	__u8 answered; /* 0: the process has to ask through the network */
	__u8 reserved;
};

/* Input of the program. */
struct nq_nearby_request {
	__u32 area;
	__u32 count;
};

/* Areas with the records of reads that go on at the same time; entries and their size are set at load time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, NQ_NEARBY_READS * (sizeof(struct nq_nearby_record) + 16));
} nq_areas SEC(".maps");

/* Words of the longest value. */
static __always_inline __u32 cell_words(void)
{
	return (nq_cell_bytes + 7) / 8;
}

/* Copies a clean object into a record; 0 if it is not clean or absent, or a writer disturbs the copy. */
static __always_inline int copy_clean(struct nq_nearby_record *r, const struct nq_object *o, __u32 seq)
{
	const __u64 *from = (const void *)o->value;
	__u64 *to = (void *)(r + 1), version = o->version;
	__u16 shape = shape_of(o);
	__u32 n = shape & NQ_LENGTH;

	if ((seq & 1) || !version || (shape & (NQ_CLEAN | NQ_TOMBSTONE)) != NQ_CLEAN || n > nq_cell_bytes)
		return 0;
	r->version = version;
	r->value_bytes = n;
	n = (n + 7) / 8;
	for (__u32 i = 0; i < cell_words() && i < n; i++)
		to[i] = from[i];
	return !was_disturbed(&o->seq, seq);
}

/* R6: answers a record from a clean, present object. */
static __always_inline void read_nearby(struct nq_nearby_record *r)
{
	__u32 shard = (__u32)bpf_be64_to_cpu(*(__be64 *)(r->key + 8)) & nq_shard_mask;
	struct nq_live *live = bpf_map_lookup_elem(&nq_live, &shard);
	struct nq_object *o;
	struct nq_load *load;
	__u64 state;
	__u32 seq;

	if (!live)
		return;
	state = *(volatile __u64 *)&live->epoch;
	load_fence();
	if (!permitted(live))
		return;
	load_fence();
	o = find_object(r->key);
	if (!o)
		return;
	seq = read_begin(&o->seq);
	if (!is_object_of(o, key_at(r->key)) || !copy_clean(r, o, seq))
		return;
	if (*(volatile __u64 *)&live->epoch != state)
		return;
	r->epoch = *(__be32 *)&state;
	r->answered = 1;
	__sync_fetch_and_add(&o->reads, 1);
	load = load_of(shard);
	if (load)
		__sync_fetch_and_add(&load->fast_reads, 1);
}

static long read_nearby_next(__u32 i, void **area)
{
	__u64 stride = sizeof(struct nq_nearby_record) + cell_words() * 8, at = i * stride;
	struct nq_nearby_record *r;

	barrier_var(at); /* Linux 6.1 finds no bounds of a product from those of its factors */
	if (at > (NQ_NEARBY_READS - 1) * stride)
		return 1;
	r = *area + at;
	r->answered = 0;
	read_nearby(r);
	return 0;
}

/* Answers the reads whose keys stand in the first records of an area, one after the other. */
SEC("syscall")
int nq_nearby(struct nq_nearby_request *request)
{
	__u32 index = request->area;
	void *area = bpf_map_lookup_elem(&nq_areas, &index);

	if (!area)
		return 1;
	bpf_loop(request->count, read_nearby_next, &area, 0);
	return 0;
}

#endif
