/* SPDX-License-Identifier: GPL-2.0 */
/* Reads on the fast path: answers in place, and the FORWARD of a read of a dirty object (R1, R2). */
#ifndef NQ_FAST_READ_H
#define NQ_FAST_READ_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "fast.h"
#include "packet.h"
#include "read.h"
#include "state.h"
#include "tables.h"
#include "wire.gen.h"

/* A reply to a READ that has been answered, with a value of this sum behind it. */
static __always_inline void seal_reply(struct fast *p, __u32 *w, __u32 value_bytes, __u32 value_sum)
{
	w[WORD_CHECK] = pair((__u16)~fold(sum_words(w, NQ_VERSION_BYTES / 4) - w[WORD_CHECK] + value_sum), 0);
	p->bytes += value_bytes;
}
_Static_assert(NQ_STATUS_OK == 0, "seal_reply has nothing beside the checksum");

static __always_inline enum way count_answered(struct fast *p, __u32 outcome)
{
	struct nq_load *load = load_of(shard_of(p));

	count(p->op, outcome);
	if (load)
		load->other_reads++;
	return WAY_CLIENT;
}

/* Answers from a snapshot of a clean object with a short value. */
static __always_inline enum way answer_short(struct fast *p, __u32 *w, struct nq_object *o, const struct snapshot *s,
					     __u32 outcome)
{
	if ((void *)w + NQ_VERSION_BYTES + SHORT_VALUE_BYTES > end_of(p->ctx))
		return WAY_NONE;
	reply_fast(p, w, NQ_STATUS_OK, s->version);
	put_long(w + NQ_VERSION_BYTES / 4, s->small[0]);
	put_long(w + NQ_VERSION_BYTES / 4 + 2, s->small[1]);
	seal_reply(p, w, SHORT_VALUE_BYTES, s->value_sum);
	o->reads++; /* CPUs that count at the same time may lose one */
	return count_answered(p, outcome);
}

/* Makes a FORWARD to the tail of a READ, in a frame or slot with room for it, or sends one on. */
static __always_inline enum way forward_fast(struct fast *p, __u32 *w)
{
	count(p->op, NQ_OUTCOME_FORWARDED);
	if (p->op == NQ_OP_READ) {
		for (int i = WORD_SESSION; i < CHAIN_WORDS; i++)
			w[i] = 0;
		w[WORD_CLIENT + 2] = bpf_htonl(0xffff);
		w[WORD_CLIENT + 3] = p->client_addr;
		w[WORD_PORT] = pair(p->client_port, bpf_htons(NQ_OP_READ << 8));
	}
	p->total = sum_words(w, CHAIN_WORDS);
	p->value_sum = 0;
	follow_on(p, w, NQ_OP_FORWARD);
	seal_chain(p, w, 0);
	return WAY_TAIL;
}

/* Is the message, whose words have been summed, a FORWARD of a READ? */
static __always_inline int is_forwarded_read(struct fast *p, const __u32 *w)
{
	__u64 zeros = p->value_bytes | w[WORD_PORT + 1];

	for (int i = WORD_SESSION; i < WORD_CLIENT + 2; i += 2)
		zeros |= long_at(w + i);
	p->client_addr = w[WORD_CLIENT + 3];
	p->client_port = *(const __u16 *)(w + WORD_PORT);
	return !zeros && w[WORD_CLIENT + 2] == bpf_htonl(0xffff) && p->client_port &&
	       *((const __u16 *)(w + WORD_PORT) + 1) == bpf_htons(NQ_OP_READ << 8);
}

#endif
