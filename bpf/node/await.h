/* SPDX-License-Identifier: GPL-2.0 */
/* W9: which objects writers wait for. */
#ifndef NQ_AWAIT_H
#define NQ_AWAIT_H

volatile const __u32 nq_await_ns = 0; /* set at load time: the time between two refusals of which the agent hears */

/* Keys for the agent. What finds no room is lost, and said again with the next refusal. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} nq_awaited SEC(".maps");

#define NQ_MARK_SHIFT 16 /* of a version in a mark, and of the nanoseconds in its time */

/*
 * A CAS or ADD is refused because the object is dirty. Its mark tells which version was refused when, the low bits of both:
 * a version refused once is on its way, one that is still refused later may be stuck, and the agent hears of it. So
 * the object's mark bounds how often that is, and a write that passes the chain in time costs nobody anything.
 */
static __always_inline void await_locked(struct nq_work *w, struct nq_object *o)
{
	__u16 now = now_ns() >> NQ_MARK_SHIFT;
	__u32 version = (__u32)o->version << NQ_MARK_SHIFT;
	__u32 mark = o->mark;
	int again = mark >> NQ_MARK_SHIFT == version >> NQ_MARK_SHIFT;
	__u16 since = now - (__u16)mark;

	if (again && (__u32)since << NQ_MARK_SHIFT < nq_await_ns)
		return;
	o->mark = version | now;
	if (again)
		bpf_ringbuf_output(&nq_awaited, &w->in.base.key_hi, 2 * sizeof(w->in.base.key_hi), 0);
}

#endif
