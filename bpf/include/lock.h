/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sequence locks: readers need none, writers take them for a few microseconds. Under bpf_spin_lock a program may call
 * no helper, and helpers copy values of variable length. Readers copy, and repeat if the word changed, so all CPUs
 * read a hot key without writing to its cache line.
 */
#ifndef NQ_LOCK_H
#define NQ_LOCK_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

volatile const __u8 nq_weak_memory = 0; /* set at load time: the CPU reorders loads, fence readers */

/*
 * Lock attempts before a packet is given up: some 10 microseconds. A holder is never preempted, but it may wait for memory
 * several times.
 */
#define NQ_SPINS 4096

/*
 * Adds to a word and is a full barrier. BPF has no other barriers than atomic instructions that return the old value: those
 * that return nothing order nothing on arm64, and the compiler makes one of those of a __sync_fetch_and_add whose result
 * is not used.
 */
static __always_inline void add_ordered(__u32 *word, __u32 change)
{
	asm volatile("%0 = atomic_fetch_add((u32 *)(%1 + 0), %0)" : "+w"(change) : "r"(word) : "memory");
}

/* Keeps loads before and after it apart. */
static __always_inline void load_fence(void)
{
	if (nq_weak_memory) {
		__u32 word = 0;

		add_ordered(&word, 0);
	}
	asm volatile("" ::: "memory");
}

/* Begins to read what a sequence lock guards, and returns its number: odd while a writer is inside. */
static __always_inline __u32 read_begin(const __u32 *word)
{
	__u32 seen = *(const volatile __u32 *)word;

	load_fence();
	return seen;
}

/* Has a writer come since read_begin returned `seen`? Then what was read counts for nothing. */
static __always_inline int was_disturbed(const __u32 *word, __u32 seen)
{
	load_fence();
	return *(const volatile __u32 *)word != seen;
}

static __always_inline int try_lock(__u32 *word)
{
	__u32 seen = *(volatile __u32 *)word;

	return !(seen & 1) && __sync_val_compare_and_swap(word, seen, seen + 1) == seen;
}

struct spin {
	__u32 *word;
	int taken;
};

static long spin_once(__u32 i, struct spin *s)
{
	s->taken = try_lock(s->word);
	return s->taken;
}

static __noinline int lock_contended(__u32 *word)
{
	struct spin s = {.word = word};

	bpf_loop(NQ_SPINS, spin_once, &s, 0);
	return s.taken;
}

/* Takes a sequence lock as a writer; false if it stayed taken for NQ_SPINS attempts. */
static __always_inline int lock(__u32 *word)
{
	return try_lock(word) || lock_contended(word);
}

/* While the word is odd no other CPU writes it, so where stores keep their order a store is enough. */
static __always_inline void unlock(__u32 *word)
{
	if (nq_weak_memory) {
		add_ordered(word, 1);
		return;
	}
	asm volatile("" ::: "memory");
	*(volatile __u32 *)word += 1;
}

#endif
