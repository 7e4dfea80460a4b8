/* SPDX-License-Identifier: GPL-2.0 */
/* The fast path of single messages: one message in a frame. */
#ifndef NQ_SINGLE_H
#define NQ_SINGLE_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "fast.h"
#include "fast_read.h"
#include "fast_write.h"
#include "fib.h"
#include "objects.h"
#include "packet.h"
#include "read.h"
#include "route.h"
#include "state.h"
#include "tables.h"
#include "wire.gen.h"

/* A READ of a dirty object goes to the tail; WAY_SLOW, with the packet as it came, if it is another read. */
static __always_inline enum way read_single(struct fast *p)
{
	__u32 *w = words_of(p, NQ_BASE_BYTES);
	struct nq_object *o;

	if (!w || p->bytes != NQ_BASE_BYTES || !folds_to_ones(sum_words(w, NQ_BASE_BYTES / 4)) || !is_fast_base(w) ||
	    !find_chain(p, w) || is_tail(p->c))
		return WAY_SLOW;
	o = find_object(w + WORD_KEY);
	if (!o || is_committed(o))
		return WAY_SLOW;
	if (resize(p->ctx, NQ_CHAIN_BYTES)) /* room in front is of no use: the READ stays where it is */
		return WAY_SLOW;
	w = words_of(p, NQ_CHAIN_BYTES);
	return w ? forward_fast(p, w) : WAY_NONE;
}

/* A READ that another member forwarded, of a clean object with a short value. */
static __always_inline enum way forwarded_single(struct fast *p, __u32 *w)
{
	struct nq_object *o;
	struct snapshot s;

	if (!is_forwarded_read(p, w) || !find_chain(p, w) || !is_member(p) || !permitted(p->live))
		return WAY_SLOW;
	o = find_object(w + WORD_KEY);
	if (!o || !take_snapshot(o, w + WORD_KEY, &s) || s.value_bytes != SHORT_VALUE_BYTES)
		return WAY_SLOW;
	return answer_short(p, w, o, &s, NQ_OUTCOME_ANSWERED_TAIL);
}

/* A message of the chain layout. */
static __always_inline enum way chain_single(struct fast *p)
{
	__u32 *w = sum_fast(p);

	if (!w || !is_fast_base(w))
		return WAY_SLOW;
	p->op = p->client_op = ((__u8 *)w)[3];
	if (is_fast_op(p->op))
		return is_fast_write(p, w) && find_chain(p, w) ? write_fast(p, w, 0) : WAY_SLOW;
	if (p->op == NQ_OP_FORWARD)
		return forwarded_single(p, w);
	if ((p->op != NQ_OP_UPDATE && p->op != NQ_OP_RELAY) || !is_fast_passed(p, w) || !find_chain(p, w) ||
	    (is_tail(p->c) && !nq_relay))
		return WAY_SLOW;
	return from_chain_fast(p, w);
}

/* Sends the outgoing message. */
static __noinline int send_single(struct fast *p, enum way way)
{
	struct xdp_md *ctx = p->ctx;
	struct nq_member *member;
	__u32 to = p->c->self - 1;

	if (resize(ctx, p->bytes))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	if (way == WAY_CLIENT && p->op < NQ_OP_FORWARD)
		return send_back(ctx, p->client_addr, p->client_port, p->bytes);
	if (way == WAY_CLIENT)
		return route(ctx, p->client_addr, p->client_port, p->bytes);
	if (way == WAY_AFTER)
		to = p->c->self + 1;
	else if (way == WAY_TAIL)
		to = p->c->length - 1;
	member = &p->c->members[to & (NQ_MAX_CHAIN - 1)];
	return route(ctx, member->addr, member->port, p->bytes);
}

/* Handles the message in the frame on the fast path and returns an action; or -1, with the packet as it came. */
static __noinline int fast_single(struct xdp_md *ctx, __u32 message_bytes)
{
	struct fast p = {.ctx = ctx, .at = NQ_L4_END, .bytes = message_bytes};
	struct frame *f = data_of(ctx);
	struct nq_base *base = (void *)(f + 1);
	enum way way;

	if ((void *)(base + 1) > end_of(ctx))
		return -1;
	p.from_addr = p.client_addr = ip_of(f)->saddr;
	p.from_port = p.client_port = udp_of(f)->source;
	p.op = base->op;
	way = p.op == NQ_OP_READ ? read_single(&p) : chain_single(&p);
	if (way == WAY_SLOW)
		return -1;
	return way == WAY_NONE ? XDP_DROP : send_single(&p, way);
}

#endif
