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
#include "lock.h"

#define NQ_KEY_BYTES 16

/*
 * Zeros are written for one in so many keys that are not wanted. A reader's buffer of 256 keys is then full after 2048
 * entries, some 0.7 ms: for so long a read keeps the CPU, which the kernel may not preempt. (And the kernel gives up with
 * EAGAIN after a million entries without output.)
 */
#define NQ_WALK_STEP 8

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
/* Of these, the objects that became clean after an epoch are wanted, and those that are dirty; 0: all. */
__u32 nq_since[NQ_MAX_SHARDS] = {};
__u32 nq_shard_mask = 0;

static __u32 seen;
static const __u8 filler[NQ_KEY_BYTES];

static __always_inline int wants(__u32 shard)
{
	shard &= NQ_MAX_SHARDS - 1;
	return nq_wanted[shard / 64] >> (shard % 64) & 1;
}

static __always_inline int visit(struct bpf_iter__bpf_map_elem *ctx, void *key, int wanted)
{
	if (wanted)
		bpf_seq_write(ctx->meta->seq, key, NQ_KEY_BYTES);
	else if (!(seen++ & (NQ_WALK_STEP - 1)))
		bpf_seq_write(ctx->meta->seq, filler, NQ_KEY_BYTES);
	return 0;
}

static __always_inline __u32 shard_of(const __be64 *key)
{
	return bpf_be64_to_cpu(key[1]) & nq_shard_mask & (NQ_MAX_SHARDS - 1);
}

/* C7. An object with a writer inside may be changing. */
static __always_inline int changed(const struct nq_object *o, __u32 since)
{
	__u32 seq = *(volatile __u32 *)&o->seq;
	int changed;

	if (!since)
		return 1;
	load_fence();
	changed = !is_committed(o) || o->mark > since;
	load_fence();
	return changed || (seq & 1) || *(volatile __u32 *)&o->seq != seq;
}

/* Objects that are not clean. */
SEC("iter/bpf_map_elem")
int nq_walk_dirty(struct bpf_iter__bpf_map_elem *ctx)
{
	struct nq_object *o = ctx->value;
	void *key = ctx->key;

	return o && key ? visit(ctx, key, !is_committed(o)) : 0;
}

/* Objects of the wanted shards that changed. */
SEC("iter/bpf_map_elem")
int nq_walk_objects(struct bpf_iter__bpf_map_elem *ctx)
{
	struct nq_object *o = ctx->value;
	__be64 *key = ctx->key;
	__u32 shard;

	if (!o || !key)
		return 0;
	shard = shard_of(key);
	return visit(ctx, key, wants(shard) && changed(o, nq_since[shard]));
}

/* Objects of the wanted shards that are not known to be committed, or have no version; of shards in which no packet writes. */
SEC("iter/bpf_map_elem")
int nq_walk_doubtful(struct bpf_iter__bpf_map_elem *ctx)
{
	struct nq_object *o = ctx->value;
	__be64 *key = ctx->key;

	return o && key ? visit(ctx, key, wants(shard_of(key)) && (!o->version || !is_committed(o))) : 0;
}

/* Objects of the wanted shards that are tombstones, or have no version. */
SEC("iter/bpf_map_elem")
int nq_walk_tombstones(struct bpf_iter__bpf_map_elem *ctx)
{
	struct nq_object *o = ctx->value;
	__be64 *key = ctx->key;

	return o && key ? visit(ctx, key, wants(shard_of(key)) && (o->tombstone || !o->version)) : 0;
}

/* Objects of the wanted shards that have no version. */
SEC("iter/bpf_map_elem")
int nq_walk_empty(struct bpf_iter__bpf_map_elem *ctx)
{
	struct nq_object *o = ctx->value;
	__be64 *key = ctx->key;

	return o && key ? visit(ctx, key, wants(shard_of(key)) && !o->version) : 0;
}

/* Sessions of the wanted shards. */
SEC("iter/bpf_map_elem")
int nq_walk_sessions(struct bpf_iter__bpf_map_elem *ctx)
{
	struct nq_session_key *key = ctx->key;

	return key ? visit(ctx, key, wants(key->shard)) : 0;
}

char _license[] SEC("license") = "GPL";
