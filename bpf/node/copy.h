/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copies of objects and sessions between nodes, for the agent, while packets go on: programs that it runs in place of system
 * calls on the tables, because only a program can take the locks, and many copies go into one call. In place of a packet
 * they get a batch. Unlike programs for packets, older kernels preempt them, and then the agent does not wait for them.
 */
#ifndef NQ_COPY_H
#define NQ_COPY_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "lock.h"
#include "objects.h"
#include "packet.h"
#include "read.h"
#include "state.h"
#include "tables.h"

struct nq_batch {
	__u32 count;
	__u32 stride; /* bytes from one record to the next */
	__u32 reserved[2];
};

enum nq_record_state {
	NQ_RECORD_ABSENT,
	NQ_RECORD_WHOLE,
	NQ_RECORD_CONTENDED, /* a writer was inside at every try */
	NQ_RECORD_FULL,	     /* no room in the table */
	NQ_RECORD_STATE_BITS = 2,
};

/* An object in a batch; its value follows. */
struct nq_record {
	__u8 key[16];
	__u64 version;
	__u64 committed;
	__u64 reads;
	__u64 writes;
	__u32 value_sum;
	__u16 value_bytes;
	__u8 tombstone;
	__u8 state;  /* result of nq_export: NQ_RECORD_* */
	__u32 epoch; /* in which it became clean; 0: it is dirty */
	__u32 reserved;
};

struct nq_session_record {
	struct nq_session_key key;
	struct nq_session entry;
};

struct copying {
	struct xdp_md *ctx;
	__u32 at; /* the next record */
	__u32 stride;
	__u32 done;
	__u32 state;
};

/* Fills in the record whose key it holds. */
static __always_inline void export_object(struct copying *c, struct nq_record *r, const struct nq_object *o)
{
	r->state = NQ_RECORD_CONTENDED;
	for (int i = 0; i < NQ_READ_TRIES; i++) {
		__u32 seq = read_begin(&o->seq), n;

		n = shape_of(o) & NQ_LENGTH;
		if ((seq & 1) || n > nq_cell_bytes)
			continue;
		if (!is_object_of(o, key_at(r->key))) /* removed meanwhile */
			return;
		r->version = o->version;
		r->committed = committed_of(o);
		r->reads = o->reads;
		r->writes = o->writes;
		r->value_sum = o->value_sum;
		r->value_bytes = n;
		r->tombstone = !!is_tombstone(o);
		r->epoch = is_committed(o) ? o->settled : 0;
		if (store_bytes(c->ctx, c->at + sizeof(*r), o->value, n, nq_cell_bytes))
			return;
		if (!was_disturbed(&o->seq, seq)) {
			r->state = NQ_RECORD_WHOLE;
			return;
		}
	}
}

static long export_next(__u32 i, struct copying *c)
{
	struct nq_record r;
	struct nq_object *o;

	if (bpf_xdp_load_bytes(c->ctx, c->at, &r, sizeof(r)))
		return 1;
	o = find_object(r.key);
	r.state = NQ_RECORD_ABSENT;
	if (o)
		export_object(c, &r, o);
	if (bpf_xdp_store_bytes(c->ctx, c->at, &r, sizeof(r)))
		return 1;
	c->at += c->stride;
	c->done++;
	return 0;
}

/* Applies a copy that is newer than the object; the mark rises only. */
static __always_inline void import_locked(struct copying *c, const struct nq_record *r, struct nq_object *o)
{
	__u32 n = r->value_bytes;

	if (r->version > o->version) {
		load_bytes(c->ctx, c->at + sizeof(*r), o->value, n, nq_cell_bytes);
		o->value_sum = r->value_sum;
		set_version_locked(o, r->version, n, r->tombstone);
	}
	commit_locked(o, r->committed, r->epoch);
}

static long import_next(__u32 i, struct copying *c)
{
	struct nq_record r;
	struct nq_object *o;
	enum no_object why = NO_CELL;

	if (bpf_xdp_load_bytes(c->ctx, c->at, &r, sizeof(r)) || r.value_bytes > nq_cell_bytes)
		return 1;
	o = find_object(r.key);
	if (!o)
		o = new_object(r.key, &why);
	c->state = o || why != NO_CELL ? NQ_RECORD_CONTENDED : NQ_RECORD_FULL;
	if (!o || !lock_object(o, r.key))
		return 1;
	import_locked(c, &r, o);
	unlock(&o->seq);
	c->state = NQ_RECORD_WHOLE;
	c->at += c->stride;
	c->done++;
	return 0;
}

static __always_inline void import_session_locked(const struct nq_session *from, struct nq_session *entry)
{
	if (from->seq <= entry->seq)
		return;
	entry->op = from->op;
	entry->status = from->status;
	entry->seq = from->seq;
	entry->version = from->version;
	entry->result = from->result;
	entry->key_lo = from->key_lo;
}

static long import_session_next(__u32 i, struct copying *c)
{
	struct nq_session_record r;
	struct nq_session *entry;
	enum no_session why = CROWDED;

	if (bpf_xdp_load_bytes(c->ctx, c->at, &r, sizeof(r)))
		return 1;
	entry = bpf_map_lookup_elem(&nq_sessions, &r.key);
	if (!entry)
		entry = new_session(&r.key, 0, 0, &why);
	c->state = why == NO_ROOM ? NQ_RECORD_FULL : NQ_RECORD_CONTENDED;
	if (!entry)
		return 1;
	c->state = NQ_RECORD_CONTENDED;
	if (!lock(&entry->lock))
		return 1;
	if (entry->session != r.key.session) { /* dropped meanwhile, and the entry used again */
		unlock(&entry->lock);
		return 1;
	}
	import_session_locked(&r.entry, entry);
	unlock(&entry->lock);
	c->state = NQ_RECORD_WHOLE;
	c->at += c->stride;
	c->done++;
	return 0;
}

/* Fills in the session entry whose key the record holds; its lock is set to the result, NQ_RECORD_*. */
static long export_session_next(__u32 i, struct copying *c)
{
	struct nq_session_record r;
	struct nq_session *entry;
	__u32 seq = 1, state = NQ_RECORD_ABSENT;

	if (bpf_xdp_load_bytes(c->ctx, c->at, &r, sizeof(r)))
		return 1;
	entry = bpf_map_lookup_elem(&nq_sessions, &r.key);
	if (entry) {
		seq = read_begin(&entry->lock);
		r.entry = *entry;
		state = (seq & 1) || was_disturbed(&entry->lock, seq) ? NQ_RECORD_CONTENDED : NQ_RECORD_WHOLE;
		if (state == NQ_RECORD_WHOLE && r.entry.session != r.key.session)
			state = NQ_RECORD_ABSENT;
	}
	r.entry.lock = state;
	if (bpf_xdp_store_bytes(c->ctx, c->at, &r, sizeof(r)))
		return 1;
	c->at += c->stride;
	c->done++;
	return 0;
}

static __always_inline int begin_batch(struct xdp_md *ctx, struct copying *c, __u32 *count)
{
	struct nq_batch batch;

	if (bpf_xdp_load_bytes(ctx, 0, &batch, sizeof(batch)))
		return 0;
	c->ctx = ctx;
	c->at = sizeof(batch);
	c->stride = batch.stride;
	c->done = c->state = 0;
	*count = batch.count;
	return 1;
}

/* Result of the programs: the number of records done, and why the next one is not. */
static __always_inline int end_batch(const struct copying *c)
{
	return c->done << NQ_RECORD_STATE_BITS | (c->state & ((1 << NQ_RECORD_STATE_BITS) - 1));
}

/* Fills in the objects whose keys stand in the batch, each as it is at one moment. */
SEC("xdp")
int nq_export(struct xdp_md *ctx)
{
	struct copying c;
	__u32 count;

	if (!begin_batch(ctx, &c, &count))
		return 0;
	bpf_loop(count, export_next, &c, 0);
	return end_batch(&c);
}

/* Takes over the objects of the batch, up to the first that it cannot. */
SEC("xdp")
int nq_import(struct xdp_md *ctx)
{
	struct copying c;
	__u32 count;

	if (!begin_batch(ctx, &c, &count))
		return 0;
	bpf_loop(count, import_next, &c, 0);
	return end_batch(&c);
}

/* Fills in the sessions whose keys stand in the batch, each as it is at one moment. */
SEC("xdp")
int nq_export_sessions(struct xdp_md *ctx)
{
	struct copying c;
	__u32 count;

	if (!begin_batch(ctx, &c, &count))
		return 0;
	bpf_loop(count, export_session_next, &c, 0);
	return end_batch(&c);
}

SEC("xdp")
int nq_import_sessions(struct xdp_md *ctx)
{
	struct copying c;
	__u32 count;

	if (!begin_batch(ctx, &c, &count))
		return 0;
	bpf_loop(count, import_session_next, &c, 0);
	return end_batch(&c);
}

/* G4: may the object, which is locked, be deleted? */
static __always_inline int is_collectable(const struct nq_chain_config *c, const struct nq_object *o)
{
	if (c->state != NQ_STATE_ACTIVE || c->learner)
		return 0;
	return !o->version || (is_tombstone(o) && (o->version <= c->bar || (nq_without & NQ_RULE_G4)));
}

/* Removes the object whose key the record holds, if that may be. Else the record gets the version of a committed tombstone. */
static long collect_next(__u32 i, struct copying *c)
{
	struct nq_chain_config *config;
	struct nq_record r;
	struct nq_object *o;
	struct nq_live *live;
	__u32 index;

	if (bpf_xdp_load_bytes(c->ctx, c->at, &r, sizeof(r)))
		return 1;
	r.version = 0;
	index = bpf_be64_to_cpu(*(__be64 *)(r.key + 8)) & nq_shard_mask;
	live = bpf_map_lookup_elem(&nq_live, &index);
	if (!live)
		return 1;
	index = index * 2 + (live->slot & 1);
	config = bpf_map_lookup_elem(&nq_chains, &index);
	o = find_object(r.key);
	if (!config)
		return 1;
	if (o && lock_object(o, r.key)) {
		if (is_collectable(config, o))
			remove_locked(o);
		else if (is_tombstone(o) && is_clean(config, o))
			r.version = o->version;
		unlock(&o->seq);
	}
	if (bpf_xdp_store_bytes(c->ctx, c->at, &r, sizeof(r)))
		return 1;
	c->at += c->stride;
	c->done++;
	return 0;
}

/* Removes the objects whose keys stand in the batch, as far as that may be. */
SEC("xdp")
int nq_collect(struct xdp_md *ctx)
{
	struct copying c;
	__u32 count;

	if (!begin_batch(ctx, &c, &count))
		return 0;
	bpf_loop(count, collect_next, &c, 0);
	return end_batch(&c);
}

/* Removes the object whose key the record holds, or makes it one that was never written. */
static long give_up_next(__u32 i, struct copying *c)
{
	struct nq_record r;
	struct nq_object *o;

	if (bpf_xdp_load_bytes(c->ctx, c->at, &r, sizeof(r)))
		return 1;
	o = find_object(r.key);
	c->state = NQ_RECORD_CONTENDED;
	if (o && !lock_object(o, r.key))
		return 1;
	if (o) {
		if (r.state == NQ_RECORD_ABSENT)
			remove_locked(o);
		else
			blank_locked(o);
		unlock(&o->seq);
	}
	c->state = NQ_RECORD_WHOLE;
	c->at += c->stride;
	c->done++;
	return 0;
}

/*
 * Removes the objects whose keys stand in the batch; those whose record has a state other than NQ_RECORD_ABSENT become
 * objects that were never written. No packet looks at them.
 */
SEC("xdp")
int nq_give_up(struct xdp_md *ctx)
{
	struct copying c;
	__u32 count;

	if (!begin_batch(ctx, &c, &count))
		return 0;
	bpf_loop(count, give_up_next, &c, 0);
	return end_batch(&c);
}

/*
 * Deletes the session entry whose key the record holds, if its last write is still the one of the record; a record without
 * a write deletes it in any case.
 */
static long drop_session_next(__u32 i, struct copying *c)
{
	struct nq_session_record r;
	struct nq_session *entry;

	if (bpf_xdp_load_bytes(c->ctx, c->at, &r, sizeof(r)))
		return 1;
	entry = bpf_map_lookup_elem(&nq_sessions, &r.key);
	if (entry && lock(&entry->lock)) {
		if (entry->session == r.key.session && (!r.entry.seq || r.entry.seq == entry->seq))
			delete_session(entry, r.key.shard);
		else
			unlock(&entry->lock);
	}
	c->at += c->stride;
	c->done++;
	return 0;
}

/* Deletes the sessions whose keys stand in the batch, as far as that may be. */
SEC("xdp")
int nq_drop_sessions(struct xdp_md *ctx)
{
	struct copying c;
	__u32 count;

	if (!begin_batch(ctx, &c, &count))
		return 0;
	bpf_loop(count, drop_session_next, &c, 0);
	return end_batch(&c);
}

#endif
