/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of objects. Only this file knows how it is made: others find an object by its key, lock it, make a new one,
 * and remove one.
 */
#ifndef NQ_OBJECTS_H
#define NQ_OBJECTS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "lock.h"
#include "state.h"
#include "tables.h"

volatile const __u32 nq_test_pause = 0; /* see test_pause() */

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

/* Value size: sizeof(struct nq_object) + nq_cell_bytes, set at load time. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, 16);
	__uint(value_size, sizeof(struct nq_object) + 16);
} nq_objects SEC(".maps");

/*
 * The initial value of an entry of nq_objects: zeros, but for two fields against readers that looked up an entry
 * before it was deleted, and used again for another key. The agent changes the sequence number before it deletes
 * objects, so a reader finds another number than before. It sets `reused` while it deletes objects, so a reader that
 * has no number yet leaves the entry alone: the slow path locks it and compares its key. So an object made during a
 * collection is read with the lock until that ends.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct nq_object) + 16);
} nq_blank SEC(".maps");

/* The object of a key; 0: there is none. A reader without the lock may find that it has become another key's. */
static __always_inline struct nq_object *find_object(const void *key)
{
	struct nq_object *o = bpf_map_lookup_elem(&nq_objects, key);

	test_pause();
	return o;
}

/* Is this still the object of the key? */
static __always_inline int is_object_of(const struct nq_object *o, const void *key)
{
	return bpf_map_lookup_elem(&nq_objects, key) == o;
}

/* Makes the object of a key that has none, or finds the one that another CPU has made; 0: the table is full. */
static __always_inline struct nq_object *new_object(const void *key)
{
	__u32 zero = 0;
	void *blank = bpf_map_lookup_elem(&nq_blank, &zero);

	if (blank && !bpf_map_update_elem(&nq_objects, key, blank, BPF_NOEXIST))
		count_entries(NQ_TABLE_OBJECTS, 1);
	return bpf_map_lookup_elem(&nq_objects, key);
}

/*
 * Locks the object of a key, as a writer. While the agent deletes objects, the entry may have become that of another key
 * after it was looked up: 0 then, as if another CPU held the lock for too long. A deleted entry stays locked. When the
 * agent has ended, no packet is left that took a reused entry for another key's.
 */
static __always_inline int lock_object(struct nq_object *o, const void *key)
{
	__u32 index = NQ_COLLECTING;
	__u64 *collecting;

	if (!lock(&o->seq))
		return 0;
	collecting = bpf_map_lookup_elem(&nq_usage, &index);
	if (!collecting || !*(volatile __u64 *)collecting) {
		o->reused = 0;
		return 1;
	}
	if (is_object_of(o, key))
		return 1;
	unlock(&o->seq);
	return 0;
}

/* Removes an object, which is locked and stays so: a waiter gives up instead of writing into an entry that is used again. */
static __always_inline int remove_locked(struct nq_object *o, const void *key)
{
	if (bpf_map_delete_elem(&nq_objects, key))
		return 0;
	count_entries(NQ_TABLE_OBJECTS, -1);
	return 1;
}

#endif
