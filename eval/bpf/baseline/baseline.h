/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the papers' protocols, in addition to NetCRAQ's headers: constants, counts, and packets that
 * keep the client's address as source on every hop. Include it first.
 */
#ifndef NQ_BASELINE_H
#define NQ_BASELINE_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* Set at load time. */
volatile const __be32 nq_self_addr = 0;
volatile const __be32 nq_pod_addr = 0; /* never set */
volatile const __be16 nq_self_port = 0;
volatile const __u8 nq_transit = 1;	  /* route packets to other nodes here, not in the kernel */
volatile const __u32 nq_test_ifindex = 0; /* tests run the egress program as a plain one, outside a device */

#define nq_tags 0 /* these protocols have none */

#define BL_OUTCOMES 16

/* Packets by the protocol's own outcomes. Forwarded packets are not counted, as in NetCRAQ. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BL_OUTCOMES);
	__type(key, __u32);
	__type(value, __u64);
} bl_counts SEC(".maps");

static __always_inline void bl_count(__u32 outcome)
{
	__u64 *n = bpf_map_lookup_elem(&bl_counts, &outcome);

	if (n)
		*n += 1;
}

static __always_inline int bl_drop(__u32 outcome)
{
	bl_count(outcome);
	return XDP_DROP;
}

/* For the shared headers: these protocols do not count packets without a route. */
static __always_inline int drop(__u8 op, __u32 outcome)
{
	return XDP_DROP;
}

#endif
