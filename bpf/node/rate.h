/* SPDX-License-Identifier: GPL-2.0 */
/* Rates: T4 and T7. A program that is loaded without limits has nothing of this file. */
#ifndef NQ_RATE_H
#define NQ_RATE_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "tables.h"
#include "wire.gen.h"

/* The credit of one address, in time: each answer to it has a cost. It is negative if the last answer cost more. */
struct nq_credit {
	__u64 last_ns;
	__s64 ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __be32);
	__type(value, struct nq_credit);
} nq_clients SEC(".maps"), nq_answered SEC(".maps");

/*
 * Whether the address has credit, out of which the cost is taken then. CPUs that do this at the same time may give a little too
 * much.
 */
static __noinline int take_credit(void *table, __be32 addr, __u64 cost)
{
	__u64 now = now_ns();
	struct nq_credit first = {.last_ns = now, .ns = NQ_CLIENT_BURST_NS - (__s64)cost};
	struct nq_credit *c = bpf_map_lookup_elem(table, &addr);

	if (!c) {
		bpf_map_update_elem(table, &addr, &first, BPF_NOEXIST);
		return 1;
	}
	if (now > c->last_ns) {
		c->ns += now - c->last_ns;
		c->last_ns = now;
		if (c->ns > NQ_CLIENT_BURST_NS)
			c->ns = NQ_CLIENT_BURST_NS;
	}
	if (c->ns <= 0)
		return 0;
	c->ns -= cost;
	return 1;
}

/* T4: takes one message out of a client's credit; false if there is none left. */
static __always_inline int within_rate(__be32 addr)
{
	return take_credit(&nq_clients, addr, 1000000000ULL / (nq_client_rate ?: 1));
}

/* T7: does an answer with this much value take credit? */
static __always_inline int is_costly(__u32 value_bytes)
{
	return nq_answer_rate && NQ_VERSION_BYTES + value_bytes > NQ_FREE_ANSWER_BYTES;
}

/* T7: takes a costly answer out of the credit of an address; false if there is none left. */
static __always_inline int afford(__be32 addr, __u32 value_bytes)
{
	return take_credit(&nq_answered, addr,
			   (NQ_VERSION_BYTES + value_bytes) * 1000000000ULL / (nq_answer_rate ?: 1));
}

/* Whether the address has credit for a costly answer; afford() takes it. */
static __noinline int has_credit(__be32 addr)
{
	struct nq_credit *c = bpf_map_lookup_elem(&nq_answered, &addr);

	return !c || c->ns > 0 || c->ns + (__s64)(now_ns() - c->last_ns) > 0;
}

#endif
