// SPDX-License-Identifier: GPL-2.0
/*
 * Walks a whole table for the agent, in process context and in pieces, so that packets never wait for it, and writes the
 * keys that it wants. The agent must not delete entries meanwhile: between two pieces the kernel remembers how
 * many entries of a bucket it has seen, not which.
 */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "wire.gen.h"

#include "state.h"

#define NQ_KEY_BYTES 16

/*
 * One key in so many is written, wanted or not: a reader with a small buffer then gets it back after a short time on the
 * CPU, though no key is wanted. (And the kernel gives up with EAGAIN after a million entries without output.)
 */
#define NQ_WALK_STEP 64

/* The parts of the kernel's types that are used; offsets are those of the running kernel. */
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	void *key;
	void *value;
} __attribute__((preserve_access_index));

/* Shards whose entries are wanted: a bit each. */
__u64 nq_wanted[NQ_MAX_SHARDS / 64] = {};
__u32 nq_shard_mask = 0;

static __u32 seen;

static __always_inline int wants(__u32 shard)
{
	shard &= NQ_MAX_SHARDS - 1;
	return nq_wanted[shard / 64] >> (shard % 64) & 1;
}

static __always_inline int visit(struct bpf_iter__bpf_map_elem *ctx, void *key, int wanted)
{
	if (wanted || !(seen++ & (NQ_WALK_STEP - 1)))
		bpf_seq_write(ctx->meta->seq, key, NQ_KEY_BYTES);
	return 0;
}

/* Objects that are not clean. */
SEC("iter/bpf_map_elem")
int nq_walk_dirty(struct bpf_iter__bpf_map_elem *ctx)
{
	struct nq_object *o = ctx->value;
	void *key = ctx->key;

	return o && key ? visit(ctx, key, o->version != o->committed) : 0;
}

/* Objects of the wanted shards. */
SEC("iter/bpf_map_elem")
int nq_walk_objects(struct bpf_iter__bpf_map_elem *ctx)
{
	__be64 *key = ctx->key;

	return key ? visit(ctx, key, wants(bpf_be64_to_cpu(key[1]) & nq_shard_mask)) : 0;
}

/* Lanes of the wanted shards. */
SEC("iter/bpf_map_elem")
int nq_walk_lanes(struct bpf_iter__bpf_map_elem *ctx)
{
	struct nq_lane_key *key = ctx->key;

	return key ? visit(ctx, key, wants(key->shard)) : 0;
}

char _license[] SEC("license") = "GPL";
