/* SPDX-License-Identifier: GPL-2.0 */
/* Contended keys: objects that stay dirty while clients try to change them (W5, W9). */
#ifndef NQ_CONTENDED_H
#define NQ_CONTENDED_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "message.h"
#include "objects.h"
#include "state.h"
#include "tables.h"

volatile const __u32 nq_contended_ns = 0; /* set at load time: least time between two reports of a key */

/* Keys for the agent. A key that finds no room is lost; the next refusal reports it again. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} nq_contended SEC(".maps");

/* A version of an object, refused at a time. */
struct nq_refusal {
	__u32 what; /* parts of key and version */
	__u32 since;
	__u32 told; /* it was reported: another key may have the place */
};

enum nq_refusals { NQ_REFUSALS = 1024, NQ_REFUSAL_SHIFT = 16 /* of nanoseconds in a time */ };

/* By key. Two keys may share one; CPUs that write one at the same time may lose a report. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NQ_REFUSALS);
	__type(key, __u32);
	__type(value, struct nq_refusal);
} nq_refusals SEC(".maps");

/*
 * Notes that a CAS or ADD is refused because the object is dirty. A version refused once may be on its way; one that is
 * still refused nq_contended_ns later may be stuck, and its key is reported to the agent. So a write that commits in time
 * causes no report.
 */
static __always_inline void note_contended_locked(struct nq_work *w, struct nq_object *o)
{
	__u32 what = (__u32)w->in.base.key_lo ^ (__u32)o->version << 16 ^ (__u32)(w->in.base.key_hi >> 32);
	__u32 index = place_of(key_at(&w->in.base.key_hi)) % NQ_REFUSALS;
	__u32 now = now_ns() >> NQ_REFUSAL_SHIFT, since;
	struct nq_refusal *r = bpf_map_lookup_elem(&nq_refusals, &index);

	if (!r)
		return;
	since = now - r->since;
	if (r->what != what) {
		if (!r->told && since < 2 * (nq_contended_ns >> NQ_REFUSAL_SHIFT))
			return;
		r->what = what;
		r->since = now;
		r->told = 0;
	} else if (since >= nq_contended_ns >> NQ_REFUSAL_SHIFT) {
		r->since = now;
		r->told = 1;
		bpf_ringbuf_output(&nq_contended, &w->in.base.key_hi, 2 * sizeof(w->in.base.key_hi), 0);
	}
}

#endif
