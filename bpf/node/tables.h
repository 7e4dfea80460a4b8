/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where a node remembers it: constants set when the program is loaded, tables that the agent fills (chains, leases)
 * and tables that only packets change (sessions; objects are in objects.h).
 */
#ifndef NQ_TABLES_H
#define NQ_TABLES_H

#include <linux/bpf.h>
#include <linux/errno.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "lock.h"
#include "state.h"
#include "wire.gen.h"

/* Set at load time; the verifier treats them as constants and removes the code that they switch off. */
volatile const __be32 nq_self_addr = 0;
volatile const __be32 nq_pod_addr = 0; /* pods of this machine send here too; 0: no such address */
volatile const __be16 nq_self_port = 0;
volatile const __u32 nq_shard_mask = 0;	 /* number of shards - 1 */
volatile const __u32 nq_cell_bytes = 16; /* longest value; the value size of nq_objects follows it */
volatile const __u16 nq_without = 0;	 /* rules switched off, for tests: bits of NQ_RULE_* */
volatile const __u8 nq_relay = 0;	 /* as a tail, relay ACKs up the chain instead of cloning them */
volatile const __u8 nq_transit = 0;	 /* networks of nodes whose messages are routed here, not in the kernel */
volatile const __u8 nq_tags = 0;	 /* enum nq_tag_phase */
volatile const __u32 nq_answer_rate = 0; /* bytes a second of long answers that one address may get; 0: any number */
volatile const __u32 nq_client_sessions = 0; /* session entries that one client may hold; 0: any number */
volatile const __u32 nq_client_rate = 0;     /* messages a second that one client may send; 0: any number */
volatile const __u32 nq_test_ifindex = 0;    /* tests run the egress program as a plain one, outside a device */
volatile const __u8 nq_test_clock = 0;	     /* tests set the clock */

__u64 nq_test_now_ns = 0;

/* The clock of leases goes on while the machine sleeps, so that a lease ends then too. */
static __always_inline __u64 now_ns(void)
{
	return nq_test_clock ? *(volatile __u64 *)&nq_test_now_ns : bpf_ktime_get_boot_ns();
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* number of shards, and a row with the latest end of a lease that the agent set */
	__type(key, __u32);
	__type(value, struct nq_live);
} nq_live SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2); /* two a shard */
	__type(key, __u32);
	__type(value, struct nq_chain_config);
} nq_chains SEC(".maps");

/* How far a controller's clock may get ahead from one heartbeat to the next, in ns, beside a part of the time between them (H4). */
enum nq_clock_limit { NQ_CLOCK_JUMP = 2000000, NQ_CLOCK_RATES = 16 };

/*
 * A controller's clock against the node's (H4). Differences are in units of 1/256 ns: so the 56 bits of a controller's
 * clock wrap as 64 do.
 */
struct nq_clock {
	__u64 process; /* of the controller; another one may have another clock */
	__u64 ahead;   /* the controller's clock less the node's, as far as it was ahead */
	__u64 at;      /* of the last comparison, by the node's clock; 0: there was none */
};

/* The key of heartbeats for this node, their grants and their clocks (H1, H2, H4). */
struct nq_heart {
	__u64 key[2];
	__be64 incarnation;
	__be32 node;
	__be32 generation; /* of the set of controllers */
	__u64 valid;
	__u64 until;		     /* end of the lease: it holds for every shard that is readable */
	__u64 ends[NQ_MAX_GRANTERS]; /* of the newest grant of each controller */
	__u64 since;		     /* when a stop of the clock was found last; grants for an earlier stamp are void */
	__u64 void_until;	     /* shards' leases that end no later are void */
	struct nq_clock clocks[NQ_MAX_GRANTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nq_heart);
} nq_heart SEC(".maps");

/* The end of a readable shard's lease, if the agent set it to `own`: heartbeats may have granted more, or show it void. */
static __always_inline __u64 lease_end(__u64 own)
{
	__u32 zero = 0;
	struct nq_heart *h = bpf_map_lookup_elem(&nq_heart, &zero);
	__u64 until;

	if (!h)
		return own;
	if (own <= *(volatile __u64 *)&h->void_until)
		own = 0;
	until = *(volatile __u64 *)&h->until;
	return own > until ? own : until;
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct nq_session_key);
	__type(value, struct nq_session);
} nq_sessions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, NQ_SESSION_HOLDERS);
	__type(key, __u32);
	__type(value, struct nq_holder);
} nq_holders SEC(".maps");

/* How nq_counters is indexed: by op << NQ_OUTCOME_BITS | outcome. */
enum nq_counter_index {
	NQ_OUTCOME_BITS = 6,
	NQ_COUNTERS = 256 << NQ_OUTCOME_BITS,
	NQ_LOAD_STEP = 8,
};
_Static_assert(NQ_OUTCOME_COUNT <= 1 << NQ_OUTCOME_BITS, "an outcome fits its bits of the index");

/* One row a CPU. Not a per-CPU array: the agent reads all of it many times a second, and so it can without a system call. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, NQ_COUNTERS); /* for each CPU */
	__type(key, __u32);
	__type(value, __u64);
} nq_counters SEC(".maps");

/* By shard: one row a CPU, of NQ_LOAD_STEP shards or a multiple, so that no two CPUs write to one cache line. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, NQ_LOAD_STEP); /* a row for each CPU */
	__type(key, __u32);
	__type(value, struct nq_load);
} nq_loads SEC(".maps");

/* Programs that nq_ingress goes on with. */
enum nq_program { NQ_PROGRAM_BUNDLE, NQ_PROGRAMS };

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, NQ_PROGRAMS);
	__type(key, __u32);
	__type(value, __u32);
} nq_programs SEC(".maps");

static __always_inline struct nq_load *load_of(__u32 shard)
{
	__u32 index = bpf_get_smp_processor_id() * ((nq_shard_mask | (NQ_LOAD_STEP - 1)) + 1) + shard;

	return bpf_map_lookup_elem(&nq_loads, &index);
}

/* Entries in use, by enum nq_table. The agent counts those that it deletes itself. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, NQ_TABLES);
	__type(key, __u32);
	__type(value, __u64);
} nq_usage SEC(".maps");

static __always_inline void count_entries(__u32 table, __s64 change)
{
	__u64 *n = bpf_map_lookup_elem(&nq_usage, &table);

	if (n)
		__sync_fetch_and_add(n, change);
}

static __always_inline void count(__u8 op, __u32 outcome)
{
	__u32 index = bpf_get_smp_processor_id() * NQ_COUNTERS +
		      ((__u32)op << NQ_OUTCOME_BITS | (outcome & ((1 << NQ_OUTCOME_BITS) - 1)));
	__u64 *n = bpf_map_lookup_elem(&nq_counters, &index);

	if (n)
		*n += 1;
}

static __always_inline int drop(__u8 op, __u32 outcome)
{
	count(op, outcome);
	return XDP_DROP;
}

/* Raises the committed version, in a configuration of some epoch. The object is locked. */
static __always_inline void commit_locked(struct nq_object *o, __u64 version, __u32 epoch)
{
	if (is_committed(o) || version <= o->settled)
		return;
	if (version == o->version) {
		o->settled = epoch;
		o->shape |= NQ_CLEAN;
	} else {
		o->settled = version;
	}
}

/* G1: the version of a new write is above the object's own and above the floor. */
static __always_inline __u64 next_version(const struct nq_chain_config *c, const struct nq_object *o)
{
	__u64 last = o->version;

	if (!(nq_without & NQ_RULE_G1) && c->floor > last)
		last = c->floor;
	return last + 1;
}

/* G3: a version at or below the bar is committed on the whole chain, and its object may be collected. */
static __always_inline int is_late(const struct nq_chain_config *c, __u64 version)
{
	return c->bar && version <= c->bar && !(nq_without & NQ_RULE_G3);
}

/* Why a write cannot be recorded in its session. */
enum no_session {
	NO_ROOM, /* the table is full, or the client holds as many entries as it may */
	NOT_YET, /* a session of the same slot was refused a short time ago */
	CROWDED, /* another CPU is at it, or memory is short */
};

/* The group that a client belongs to: owner of its entries in nq_sessions. */
static __always_inline __u16 owner_of(__be32 client)
{
	_Static_assert(NQ_SESSION_HOLDERS == 1 << 10, "ten bits of the product");
	return (bpf_ntohl(client) * 0x9e3779b1u >> 22) + 1;
}

static __always_inline struct nq_holder *holder_of(__u16 owner)
{
	__u32 index = (__u32)owner - 1;

	return owner ? bpf_map_lookup_elem(&nq_holders, &index) : 0;
}

static __always_inline __u32 slot_of(const struct nq_session_key *key)
{
	_Static_assert(NQ_REFUSED_SLOTS == 1 << 6, "six bits of the product");
	return (bpf_be64_to_cpu(key->session) ^ key->shard) * 0x9e3779b97f4a7c15ULL >> 58;
}

/*
 * Makes the entry of a session that has none, for a write that may be recorded in it; 0 if that cannot be. At the head the
 * share of the client and the slot of the session are checked too (W14). A session that was refused a short time ago gets
 * an entry that is locked from the start, and deleted at once: so it is known whether there would be room.
 */
static __noinline struct nq_session *new_session(const struct nq_session_key *key, __u16 owner, int head,
						 enum no_session *why)
{
	enum no_session ignored;
	struct nq_session fresh = {.owner = owner, .session = key->session};
	struct nq_holder *h = holder_of(owner);
	int failed; /* before Linux 6.4 the upper half of the helper's result is undefined */

	if (!why)
		why = &ignored;
	*why = NO_ROOM;
	if (h && head) {
		if (nq_client_sessions && h->entries >= nq_client_sessions)
			return 0;
		if (!(nq_without & NQ_RULE_W14))
			fresh.lock = now_ns() < h->refused_until_ns[slot_of(key)];
	}
	failed = bpf_map_update_elem(&nq_sessions, key, &fresh, BPF_NOEXIST);
	if (failed == -E2BIG)
		return 0;
	*why = CROWDED;
	if (failed && failed != -EEXIST)
		return 0;
	if (!failed && fresh.lock) {
		*why = NOT_YET;
		bpf_map_delete_elem(&nq_sessions, key);
		return 0;
	}
	if (!failed) {
		count_entries(NQ_TABLE_SESSIONS, 1);
		if (h)
			__sync_fetch_and_add(&h->entries, 1);
	}
	return bpf_map_lookup_elem(&nq_sessions, key);
}

/* Sees to it that no copy of a write is taken that was refused for want of an entry (W14). */
static __always_inline void note_refused(const struct nq_session_key *key, __u16 owner)
{
	const __u64 life_s = (nq_tags ? NQ_TAGGED_REST_S : NQ_REST_S) - NQ_MAX_RETRY_S;
	struct nq_holder *h = holder_of(owner);

	if (h && !(nq_without & NQ_RULE_W14))
		h->refused_until_ns[slot_of(key)] = now_ns() + life_s * 1000000000;
}

/*
 * Deletes the entry of a session, which is locked. It stays locked: a packet that waits for it gives up instead of writing
 * into an entry that is used again.
 */
static __noinline int delete_session(struct nq_session *entry, __u32 shard)
{
	struct nq_session_key key = {.shard = shard};
	struct nq_holder *h;

	if (!entry)
		return 0;
	key.session = entry->session;
	h = holder_of(entry->owner);
	if (bpf_map_delete_elem(&nq_sessions, &key)) { /* the entry is that of another key */
		unlock(&entry->lock);
		return 0;
	}
	count_entries(NQ_TABLE_SESSIONS, -1);
	if (h)
		__sync_fetch_and_add(&h->entries, -1);
	return 1;
}

/* Unlocks the entry of a session in a shard, or deletes it if no write is recorded in it (W14). */
static __always_inline void release_session(struct nq_session *entry, __u32 shard)
{
	if (entry->seq)
		unlock(&entry->lock);
	else
		delete_session(entry, shard);
}

#endif
