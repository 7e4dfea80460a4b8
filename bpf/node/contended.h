/* SPDX-License-Identifier: GPL-2.0 */
/* Contended keys: objects that stay dirty while clients try to change them (W5, W9). */
#ifndef NQ_CONTENDED_H
#define NQ_CONTENDED_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "message.h"
#include "state.h"
#include "tables.h"

volatile const __u32 nq_contended_ns = 0; /* set at load time: least time between two reports of a key */

/* Keys for the agent. A key that finds no room is lost; the next refusal reports it again. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} nq_contended SEC(".maps");

#define NQ_MARK_SHIFT 16 /* of a version in a mark, and of the nanoseconds in its time */

/*
 * Notes that a CAS or ADD is refused because the object is dirty. The object's mark holds the low bits of the version refused
 * and of the time. A version refused once may be on its way; one that is still refused nq_contended_ns later may be stuck,
 * and its key is reported to the agent. The mark limits the rate of reports, and a write that commits in time causes none.
 */
static __always_inline void note_contended_locked(struct nq_work *w, struct nq_object *o)
{
	__u16 now = now_ns() >> NQ_MARK_SHIFT;
	__u32 version = (__u32)o->version << NQ_MARK_SHIFT;
	__u32 mark = o->mark;
	int again = mark >> NQ_MARK_SHIFT == version >> NQ_MARK_SHIFT;
	__u16 since = now - (__u16)mark;

	if (again && (__u32)since << NQ_MARK_SHIFT < nq_contended_ns)
		return;
	o->mark = version | now;
	if (again)
		bpf_ringbuf_output(&nq_contended, &w->in.base.key_hi, 2 * sizeof(w->in.base.key_hi), 0);
}

#endif
