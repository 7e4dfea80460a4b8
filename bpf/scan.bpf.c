// SPDX-License-Identifier: GPL-2.0
/*
 * Walks all objects for the agent, in process context and in pieces, so that packets never wait for it: counts them
 * and writes the keys of those that are not clean.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "wire.gen.h"

#include "state.h"

#define NQ_KEY_BYTES 16

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

__u64 nq_total = 0;

SEC("iter/bpf_map_elem")
int nq_scan(struct bpf_iter__bpf_map_elem *ctx)
{
	struct nq_object *o = ctx->value;
	void *key = ctx->key;

	if (!o || !key)
		return 0;
	nq_total++;
	if (o->version != o->committed)
		bpf_seq_write(ctx->meta->seq, key, NQ_KEY_BYTES);
	return 0;
}

char _license[] SEC("license") = "GPL";
