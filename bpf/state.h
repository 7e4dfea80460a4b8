/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a node remembers: constants set when the program is loaded, tables that the agent fills (chains, leases)
 * and tables that only packets change (objects, lanes). Every struct is mirrored in internal/dataplane/xdp and
 * compared there with the BTF of this object.
 */
#ifndef NQ_STATE_H
#define NQ_STATE_H

/* Set at load time; the verifier treats them as constants and drops what they switch off. */
volatile const __be32 nq_self_addr = 0;
volatile const __be16 nq_self_port = 0;
volatile const __u32 nq_shard_mask = 0;	   /* number of shards - 1 */
volatile const __u32 nq_cell_bytes = 16;   /* longest value; the value size of nq_objects follows it */
volatile const __u8 nq_without = 0;	   /* rules switched off, for tests: bits of NQ_RULE_* */
volatile const __u8 nq_relay = 0;	   /* as a tail, relay ACKs up the chain instead of cloning them */
volatile const __u8 nq_weak_memory = 0;	   /* the CPU reorders loads: fence readers */
volatile const __u32 nq_test_ifindex = 0;  /* tests run the egress program as a plain one, outside a device */

#define NQ_RULE_W2 1
#define NQ_RULE_W5 2
#define NQ_RULE_W8 4

#define NQ_STATE_NONE 0
#define NQ_STATE_ACTIVE 1
#define NQ_STATE_FROZEN 2

#define NQ_LEASE_FOREVER (~0ULL)

/* Lock attempts before a packet is given up; a holder is never preempted, so this is a few microseconds. */
#define NQ_SPINS 512

/* The part of a shard's configuration that every read needs. state is written in one store of 8 bytes. */
struct nq_live {
	__u64 lease_until_ns; /* boot clock; NQ_LEASE_FOREVER: never runs out */
	__be32 epoch;
	__u8 slot;	      /* which of the shard's two nq_chain is in force */
	__u8 readable;	      /* in the chain and no learner: may answer reads while the lease lasts */
	__u8 tail;
	__u8 reserved;
};

struct nq_member {
	__be32 addr;
	__be16 port;
	__u16 reserved;
};

struct nq_chain_config {
	__u32 epoch;
	__u8 state;
	__u8 learner;
	__u8 self;   /* own place in members */
	__u8 length; /* members in use */
	struct nq_member members[NQ_MAX_CHAIN];
};

/*
 * One object. seq is a sequence lock: odd while a writer is inside, so that readers need no lock. The header has 48
 * bytes: behind it and the hash table's own 64, a 16-byte value shares one cache line with the header.
 */
struct nq_object {
	__u32 seq;
	__u16 value_bytes;
	__u8 tombstone;
	__u8 reserved;
	__u64 version;
	__u64 committed;
	__u64 reads;
	__u64 writes;
	__u32 value_sum; /* ones' complement sum of the value, as it stands in memory */
	__u32 reserved_32;
	__u8 value[]; /* nq_cell_bytes */
};

/* A client's lane for writes in one shard. */
struct nq_lane_key {
	__u64 session;
	__u32 shard;
	__u32 reserved;
};

struct nq_lane {
	__u32 lock; /* odd while a packet is inside */
	__u8 op;
	__u8 status;
	__u16 reserved;
	__u64 seq;
	__u64 version;
	__u64 result;
	__u64 key_lo;
	__u64 session; /* the key again: shows that the entry was reused while a packet waited for its lock */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* number of shards */
	__type(key, __u32);
	__type(value, struct nq_live);
} nq_live SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2); /* two a shard */
	__type(key, __u32);
	__type(value, struct nq_chain_config);
} nq_chains SEC(".maps");

/* Value size: sizeof(struct nq_object) + nq_cell_bytes, set at load time. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, 16);
	__uint(value_size, sizeof(struct nq_object) + 16);
} nq_objects SEC(".maps");

/* One object of zeros: what a new entry of nq_objects starts as. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct nq_object) + 16);
} nq_blank SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct nq_lane_key);
	__type(value, struct nq_lane);
} nq_lanes SEC(".maps");

/* Counts by op << 5 | outcome. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 256 * 32);
	__type(key, __u32);
	__type(value, __u64);
} nq_counters SEC(".maps");
_Static_assert(NQ_OUTCOME_COUNT <= 32, "an outcome has 5 bits in the index of nq_counters");

static __always_inline void count(__u8 op, __u32 outcome)
{
	__u32 index = (__u32)op << 5 | (outcome & 31);
	__u64 *n = bpf_map_lookup_elem(&nq_counters, &index);

	if (n)
		*n += 1;
}

static __always_inline int drop(__u8 op, __u32 outcome)
{
	count(op, outcome);
	return XDP_DROP;
}

/* Readers of a sequence lock: keeps loads before and after it apart. */
static __always_inline void load_fence(void)
{
	if (nq_weak_memory) {
		__u64 word = 0;

		__sync_fetch_and_add(&word, 0);
	}
	asm volatile("" ::: "memory");
}

/* Takes a sequence lock as a writer; false if it stayed taken for NQ_SPINS attempts. */
static __noinline int lock(__u32 *word)
{
	for (int i = 0; i < NQ_SPINS; i++) {
		__u32 seen = *(volatile __u32 *)word;

		if (!(seen & 1) && __sync_val_compare_and_swap(word, seen, seen + 1) == seen)
			return 1;
	}
	return 0;
}

static __always_inline void unlock(__u32 *word)
{
	__sync_fetch_and_add(word, 1);
}

static __always_inline struct nq_object *new_object(const void *key)
{
	__u32 zero = 0;
	void *blank = bpf_map_lookup_elem(&nq_blank, &zero);

	if (blank)
		bpf_map_update_elem(&nq_objects, key, blank, BPF_NOEXIST);
	return bpf_map_lookup_elem(&nq_objects, key);
}

static __always_inline struct nq_lane *find_lane(__u64 session, __u32 shard)
{
	struct nq_lane_key key = {.session = session, .shard = shard};
	struct nq_lane *lane = bpf_map_lookup_elem(&nq_lanes, &key);

	if (!lane) {
		struct nq_lane fresh = {.session = session};

		bpf_map_update_elem(&nq_lanes, &key, &fresh, BPF_NOEXIST);
		lane = bpf_map_lookup_elem(&nq_lanes, &key);
	}
	return lane;
}

#endif
