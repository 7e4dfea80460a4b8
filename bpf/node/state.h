/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The layout of a node's state. Every struct is mirrored in internal/node/dataplane/xdp and compared there with the
 * BTF of the compiled program.
 */
#ifndef NQ_STATE_H
#define NQ_STATE_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#include "wire.gen.h"

/* Rules that tests switch off: bits of nq_without. */
enum nq_rule {
	NQ_RULE_W2 = 1,
	NQ_RULE_W5 = 2,
	NQ_RULE_W8 = 4,
	NQ_RULE_R4 = 8,
	NQ_RULE_G1 = 16,
	NQ_RULE_G3 = 32,
	NQ_RULE_G4 = 64,
	NQ_RULE_H4 = 128,
	NQ_RULE_W12 = 256,
	NQ_RULE_W14 = 512
};

enum nq_state { NQ_STATE_NONE, NQ_STATE_ACTIVE, NQ_STATE_FROZEN };

#define NQ_LEASE_FOREVER (~0ULL)

/*
 * The part of a shard's configuration that every read needs. The fields after the lease are written in one store of 8 bytes;
 * code that needs more than one field of a configuration takes all from the nq_chain_config in that slot.
 */
struct nq_live {
	__u64 lease_until_ns; /* boot clock; NQ_LEASE_FOREVER: never runs out */
	__be32 epoch;
	__u8 slot;     /* which of the shard's two nq_chain is in force */
	__u8 readable; /* in the chain and no learner: may answer reads while the lease lasts */
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
	__u32 base; /* for the agent: the epoch from which it keeps the objects of a shard that it left or rejoins */
	__u32 reserved;
	__u64 floor; /* new versions are above it (G1) */
	__u64 bar;   /* all versions up to it are committed on the whole chain (G2); 0: none */
};

static __always_inline int is_tail(const struct nq_chain_config *c)
{
	return c->self + 1 == c->length;
}

/* Bits of a cell's shape: the length of the value, and what the cell holds. */
enum nq_shape {
	NQ_LENGTH = 0x7ff,
	NQ_TOMBSTONE = 1 << 12,
	NQ_CLEAN = 1 << 13, /* the newest version is known to be committed */
	NQ_USED = 1 << 15,  /* else the cell is free */
};
_Static_assert(NQ_MAX_VALUE_BYTES <= NQ_LENGTH, "a length fits its bits");

/*
 * One object, in a cell of nq_objects. seq is a sequence lock: odd while a writer is inside, so that readers need no lock.
 * The header has 48 bytes: a 16-byte value shares one cache line with it.
 */
struct nq_object {
	__u32 seq;
	__u16 shape;	 /* enum nq_shape */
	__u16 value_sum; /* ones' complement sum of the value, as it stands in memory */
	__u64 key[2];	 /* as in messages */
	__u64 version;
	__u64 settled; /* clean: the epoch in which it became so; dirty: the committed version */
	__u32 reads;   /* modulo 2^32, as the next */
	__u32 writes;
	__u8 value[]; /* nq_cell_bytes */
};

static __always_inline __u32 value_bytes_of(const struct nq_object *o)
{
	return o->shape & NQ_LENGTH;
}

static __always_inline int is_tombstone(const struct nq_object *o)
{
	return o->shape & NQ_TOMBSTONE;
}

/* The object was never written, or was deleted. */
static __always_inline int is_absent(const struct nq_object *o)
{
	return !o->version || is_tombstone(o);
}

/* The newest version is known to be committed. */
static __always_inline int is_committed(const struct nq_object *o)
{
	return o->shape & NQ_CLEAN;
}

static __always_inline __u64 committed_of(const struct nq_object *o)
{
	return is_committed(o) ? o->version : o->settled;
}

/* Gives an object, which is locked, a newer version; the value is stored by the caller. */
static __always_inline void set_version_locked(struct nq_object *o, __u64 version, __u32 value_bytes, int tombstone)
{
	if (is_committed(o))
		o->settled = o->version;
	o->version = version;
	o->shape = NQ_USED | (tombstone ? NQ_TOMBSTONE : 0) | (value_bytes & NQ_LENGTH);
}

/*
 * No write of the object is under way. An active tail holds committed versions only, whatever their mark: a replica
 * that became the tail received no ACK for them (C2).
 */
static __always_inline int is_clean(const struct nq_chain_config *c, const struct nq_object *o)
{
	return is_committed(o) || (is_tail(c) && c->state == NQ_STATE_ACTIVE);
}

/* W5: CAS expects the object's version, or 0 for an absent object. */
static __always_inline int cas_matches(const struct nq_object *o, __u64 expected)
{
	return expected == o->version || (!expected && is_absent(o));
}

/* The entry of a session in one shard. */
struct nq_session_key {
	__u64 session;
	__u32 shard;
	__u32 reserved;
};

struct nq_session {
	__u32 lock; /* odd while a packet is inside */
	__u8 op;
	__u8 status;
	__u16 owner; /* number + 1 in nq_holders of the client that holds the entry; 0: copied from another node */
	__u64 seq;
	__u64 version;
	__u64 result; /* ADD: the new value; else digest_value(), 0 if it is not known */
	__u64 key_lo;
	__u64 session; /* the key again: shows that the entry was reused while a packet waited for its lock */
};

/* A group of client addresses (W14). */
struct nq_holder {
	__u64 entries;				  /* in nq_sessions that its clients hold */
	__u64 refused_until_ns[NQ_REFUSED_SLOTS]; /* by slot of a session: until when no entry is made */
};

/* Load of a shard on one CPU. */
struct nq_load {
	__u64 fast_reads; /* answered by answer_fast or nq_grow, which count nothing else: READ, ANSWERED_CLEAN */
	__u64 other_reads;
	__u64 writes; /* versions applied */
};

/* Tables whose entries are counted in nq_usage. */
enum nq_table { NQ_TABLE_OBJECTS, NQ_TABLE_SESSIONS, NQ_TABLES };

#endif
