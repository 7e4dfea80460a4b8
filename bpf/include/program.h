/* SPDX-License-Identifier: GPL-2.0 */
/* The shared headers use these. Each program defines them: see node/tables.h and baseline/baseline.h. */
#ifndef NQ_PROGRAM_H
#define NQ_PROGRAM_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* Set at load time. */
extern volatile const __be32 nq_self_addr;
extern volatile const __be32 nq_pod_addr; /* a second address that messages come to; 0: none */
extern volatile const __be16 nq_self_port;
extern volatile const __u8 nq_transit; /* route messages to other nodes here, not in the kernel */
#ifndef nq_tags
extern volatile const __u8 nq_tags; /* every message has a trailer with a tag */
#endif

/* Counts a message without a route and drops it. */
static __always_inline int drop(__u8 op, __u32 outcome);

#endif
