/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Latencies from writing a request until checking its answer, in a histogram whose buckets are a 64th of a power of two
 * wide. The verifier removes all of this unless `timing` is set.
 */
#ifndef LOADGEN_CLOCK_H
#define LOADGEN_CLOCK_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "loadgen.h"

#define STEP_BITS 6 /* log2 of the buckets per power of two */
#define BUCKETS (36 << STEP_BITS)

__u64 sent_at[WINDOW];	     /* ns, by place in the window; 0: no outstanding request */
__u64 histogram[2][BUCKETS]; /* answers to READs and to writes, by latency */

/* Returns the position of the highest set bit. */
static __always_inline __u32 log2_of(__u64 n)
{
	__u32 log = 0;

#pragma unroll
	for (int step = 32; step; step /= 2) {
		if (n >> step) {
			n >>= step;
			log += step;
		}
	}
	return log;
}

/* Each time below 2^STEP_BITS ns has its own bucket. */
static __always_inline __u32 bucket_of(__u64 ns)
{
	__u32 log = log2_of(ns | 1);

	if (log < STEP_BITS)
		return ns;
	return ((log - STEP_BITS) << STEP_BITS) + (ns >> (log - STEP_BITS));
}

static __always_inline void took_off(__u32 place)
{
	if (timing)
		sent_at[place & (WINDOW - 1)] = bpf_ktime_get_ns();
}

static __always_inline void landed(__u32 place, _Bool writing)
{
	__u64 *sent = &sent_at[place & (WINDOW - 1)];
	__u32 bucket;

	if (!timing || !*sent)
		return;
	bucket = bucket_of(bpf_ktime_get_ns() - *sent);
	if (bucket < BUCKETS)
		histogram[writing ? 1 : 0][bucket]++;
	*sent = 0;
}

#endif
