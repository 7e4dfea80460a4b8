/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of objects: an array of cells. A key has a place, a hash of it and a secret of the node, and its object lies in
 * the first cell that was free from there on. It never moves. Each place has a reach: how many cells from it on may hold
 * objects of its keys. So a cell is free as soon as its object is removed, and no run gets longer by removals. Only this
 * file knows how the table is made.
 *
 * An object is used under its sequence number, and every use compares the key: a cell may have become another key's since
 * it was found.
 */
#ifndef NQ_OBJECTS_H
#define NQ_OBJECTS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "lock.h"
#include "state.h"
#include "tables.h"

volatile const __u64 nq_secret[2] = {1, 1}; /* odd numbers */
volatile const __u32 nq_places = 1;	    /* more cells follow those of places */
volatile const __u32 nq_max_objects = 1;    /* of them; the table has more cells */
volatile const __u32 nq_test_pause = 0;	    /* see test_pause() */

enum nq_run {
	NQ_RUN = 1024,	 /* the longest reach; some hundred is the longest that occurs */
	NQ_REACHES = 32, /* in a cache line */
};

#define NQ_NEAR 3	    /* cells that are looked at without a call */
#define NQ_INSERT_LOCKS 256 /* by place */

static long pause_next(__u32 i, void *context)
{
	return 0;
}

/* Stands between the lookup of an object and its first use. Tests make it long, as a hypervisor that stops the CPU may. */
static __always_inline void test_pause(void)
{
	if (nq_test_pause)
		bpf_loop(nq_test_pause, pause_next, 0, 0);
}

/* Value size: sizeof(struct nq_object) + nq_cell_bytes in whole cache lines, set at load time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct nq_object) + 16);
} nq_objects SEC(".maps");

/* By place. An insertion measures it anew. */
struct nq_reaches {
	__u16 reach[NQ_REACHES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nq_reaches);
} nq_reaches SEC(".maps");

/* Held while an object is inserted. One a cache line. */
struct nq_insert_lock {
	__u32 word;
	__u32 reserved[15];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NQ_INSERT_LOCKS);
	__type(key, __u32);
	__type(value, struct nq_insert_lock);
} nq_insert_locks SEC(".maps");

/* A key as two words of memory. */
struct key {
	__u64 word[2];
};

static __always_inline struct key key_at(const void *at)
{
	const __u64 *word = at;

	return (struct key){{word[0], word[1]}};
}

/*
 * The place of a key: the first cell where its object may lie. Without the secret nobody can choose many keys with one place:
 * the high bits of the first word reach the low bits before the second word is added.
 */
static __always_inline __u32 place_of(struct key key)
{
	__u64 h = (key.word[0] + nq_secret[0]) * nq_secret[1];

	h = ((h ^ h >> 32) + key.word[1]) * nq_secret[0];
	return ((h ^ h >> 32) & 0xffffffff) * nq_places >> 32;
}

static __always_inline struct nq_object *cell_at(__u32 cell)
{
	return bpf_map_lookup_elem(&nq_objects, &cell);
}

static __always_inline __u16 shape_of(const struct nq_object *o)
{
	return *(const volatile __u16 *)&o->shape;
}

/* Is this the object of the key? Certain only under the lock or between two looks at the sequence number. */
static __always_inline int is_object_of(const struct nq_object *o, struct key key)
{
	return o->key[0] == key.word[0] && o->key[1] == key.word[1] && (shape_of(o) & NQ_USED);
}

static __always_inline __u16 *reach_of(__u32 place)
{
	__u32 line = place / NQ_REACHES;
	struct nq_reaches *r = bpf_map_lookup_elem(&nq_reaches, &line);

	return r ? &r->reach[place % NQ_REACHES] : 0;
}

/* A look for a key's object, from a cell on. */
struct probe {
	struct key key;
	__u32 first;
	__u32 reach; /* cells that may hold the object */
	__u32 found; /* the object's cell + 1 */
	__u32 free;  /* of an insertion: the first free cell + 1 */
	__u32 used;  /* of an insertion: the reach that the objects of the place need */
};

static long probe_next(__u32 i, struct probe *p)
{
	__u32 cell = p->first + i;
	struct nq_object *o = cell_at(cell);

	if (!o)
		return 1;
	if (is_object_of(o, p->key)) {
		p->found = cell + 1;
		return 1;
	}
	return i + 1 >= p->reach;
}

/* The rest of find_object. */
static __noinline struct nq_object *find_far(__u64 hi, __u64 lo, __u32 place)
{
	struct probe p = {.key = {{hi, lo}}, .first = place + NQ_NEAR};
	__u16 *reach = reach_of(place);

	if (!reach || *reach <= NQ_NEAR)
		return 0;
	p.reach = *reach - NQ_NEAR;
	bpf_loop(NQ_RUN - NQ_NEAR, probe_next, &p, 0);
	return p.found ? cell_at(p.found - 1) : 0;
}

/* The object of a key; 0: there is none. */
static __always_inline struct nq_object *find_object(const void *at)
{
	struct key key = key_at(at);
	__u32 place = place_of(key);
	struct nq_object *o;

#pragma unroll
	for (int i = 0; i < NQ_NEAR; i++) {
		o = cell_at(place + i);
		if (o && is_object_of(o, key)) {
			test_pause();
			return o;
		}
	}
	o = find_far(key.word[0], key.word[1], place);
	test_pause();
	return o;
}

/* Counts one more object, if there may be one. */
static __always_inline int take_room(void)
{
	__u32 table = NQ_TABLE_OBJECTS;
	__u64 *n = bpf_map_lookup_elem(&nq_usage, &table);

	if (!n)
		return 0;
	if (__sync_fetch_and_add(n, 1) < nq_max_objects)
		return 1;
	__sync_fetch_and_add(n, -1);
	return 0;
}

/* Makes an object one that was never written. It is locked. */
static __always_inline void blank_locked(struct nq_object *o)
{
	o->version = o->settled = 0;
	o->reads = o->writes = 0;
	o->value_sum = 0;
	o->shape = NQ_USED | NQ_CLEAN;
}

/* Makes the object in a cell that was free; 0 if another CPU took the cell meanwhile. */
static __always_inline int fill_cell(struct nq_object *o, struct key key)
{
	int taken = lock(&o->seq);

	if (!taken)
		return 0;
	taken = !(shape_of(o) & NQ_USED);
	if (taken) {
		o->key[0] = key.word[0];
		o->key[1] = key.word[1];
		blank_locked(o);
	}
	unlock(&o->seq);
	return taken;
}

/* Why there is no new object. */
enum no_object {
	NO_CELL,    /* the table is full, or all cells that the key may have */
	CELL_TAKEN, /* another CPU is at it */
};

/* No object of the place is made meanwhile, so none is missed: insertions of its keys exclude each other. */
static long insert_next(__u32 i, struct probe *p)
{
	__u32 cell = p->first + i;
	struct nq_object *o = cell_at(cell);

	if (!o)
		return 1;
	if (!(shape_of(o) & NQ_USED)) {
		if (!p->free)
			p->free = cell + 1;
	} else if (i < p->reach) {
		if (is_object_of(o, p->key)) {
			p->found = cell + 1;
			return 1;
		}
		if (place_of(key_at(o->key)) == p->first)
			p->used = i + 1;
	}
	return p->free && i + 1 >= p->reach;
}

static __always_inline struct nq_object *insert_locked(struct key key, __u32 place, enum no_object *why)
{
	struct probe p = {.key = key, .first = place};
	__u16 *reach = reach_of(place);
	struct nq_object *o;

	if (!reach)
		return 0;
	p.reach = *reach;
	bpf_loop(NQ_RUN, insert_next, &p, 0);
	if (p.found)
		return cell_at(p.found - 1);
	o = p.free ? cell_at(p.free - 1) : 0;
	test_pause();
	if (!o || !take_room()) {
		*why = NO_CELL;
		return 0;
	}
	if (p.used < p.free - place)
		p.used = p.free - place;
	if (p.used != *reach)
		*(volatile __u16 *)reach = p.used; /* before the object is there */
	if (fill_cell(o, key))
		return o;
	count_entries(NQ_TABLE_OBJECTS, -1);
	return 0;
}

static __noinline struct nq_object *insert(__u64 hi, __u64 lo, enum no_object *why)
{
	struct key key = {{hi, lo}};
	__u32 place = place_of(key), lock_index = place % NQ_INSERT_LOCKS;
	struct nq_insert_lock *l = bpf_map_lookup_elem(&nq_insert_locks, &lock_index);
	struct nq_object *o;

	*why = CELL_TAKEN;
	if (!l || !lock(&l->word))
		return 0;
	o = insert_locked(key, place, why);
	unlock(&l->word);
	return o;
}

/* Makes the object of a key that has none, or finds the one that another CPU has made; 0: see why. */
static __always_inline struct nq_object *new_object(const void *at, enum no_object *why)
{
	struct key key = key_at(at);

	return insert(key.word[0], key.word[1], why);
}

/* Locks the object of a key, as a writer; 0 if another CPU held the lock for too long, or the object was removed. */
static __always_inline int lock_object(struct nq_object *o, const void *key)
{
	if (!lock(&o->seq))
		return 0;
	if (is_object_of(o, key_at(key)))
		return 1;
	unlock(&o->seq);
	return 0;
}

/* Removes an object, which is locked. Its cell is free then. */
static __always_inline void remove_locked(struct nq_object *o)
{
	o->shape = 0;
	count_entries(NQ_TABLE_OBJECTS, -1);
}

/* Has the memory of a key's place on its way. Many of them wait for memory at the same time, unlike the uses that follow. */
static __always_inline void touch_object(const void *key)
{
	struct nq_object *o = cell_at(place_of(key_at(key)));

	if (o)
		shape_of(o);
}

#endif
