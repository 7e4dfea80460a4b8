/* SPDX-License-Identifier: GPL-2.0 */
/* Plain messages that have a frame of their own. */
#ifndef NQ_ALONE_H
#define NQ_ALONE_H

/* A READ of a dirty object goes to the tail; NOT_PLAIN, with the packet as it came, if it is another read. */
static __always_inline enum way read_alone(struct plain *p)
{
	__u32 *w = words_of(p, NQ_BASE_BYTES);
	struct nq_object *o;

	if (!w || p->bytes != NQ_BASE_BYTES || !folds_to_ones(sum_words(w, NQ_BASE_BYTES / 4)) || !is_plain_base(w) ||
	    !find_chain(p, w) || is_tail(p->c))
		return NOT_PLAIN;
	o = bpf_map_lookup_elem(&nq_objects, w + WORD_KEY);
	if (!o || o->version == o->committed)
		return NOT_PLAIN;
	if (resize(p->ctx, NQ_CHAIN_BYTES)) /* room in front is of no use: the READ stays where it is */
		return NOT_PLAIN;
	w = words_of(p, NQ_CHAIN_BYTES);
	return w ? forward_plain(p, w) : WAY_NONE;
}

/* A READ that another member forwarded, of a clean object with a short value. */
static __always_inline enum way forwarded_alone(struct plain *p, __u32 *w)
{
	struct nq_object *o;
	struct snapshot s;

	if (!is_forwarded_read(p, w) || !find_chain(p, w) || !is_member(p) || !permitted(p->live))
		return NOT_PLAIN;
	o = bpf_map_lookup_elem(&nq_objects, w + WORD_KEY);
	if (!o || !take_snapshot(o, &s) || s.value_bytes != SHORT_VALUE_BYTES)
		return NOT_PLAIN;
	return answer_short(p, w, o, &s, NQ_OUTCOME_ANSWERED_TAIL);
}

/* A message of the chain layout. */
static __always_inline enum way chain_alone(struct plain *p)
{
	__u32 *w = sum_plain(p);

	if (!w || !is_plain_base(w))
		return NOT_PLAIN;
	p->op = p->client_op = ((__u8 *)w)[3];
	if (is_plain_op(p->op))
		return is_plain_write(p, w) && find_chain(p, w) ? write_plain(p, w, 0) : NOT_PLAIN;
	if (p->op == NQ_OP_FORWARD)
		return forwarded_alone(p, w);
	if ((p->op != NQ_OP_UPDATE && p->op != NQ_OP_RELAY) || !is_plain_passed(p, w) || !find_chain(p, w) ||
	    (is_tail(p->c) && !nq_relay))
		return NOT_PLAIN;
	return from_chain_plain(p, w);
}

/* Sends what the message has become. */
static __noinline int send_alone(struct plain *p, enum way way)
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

/* Handles the message in the frame if it is plain: an action; or -1, with the packet as it came. */
static __noinline int plain_alone(struct xdp_md *ctx, __u32 message_bytes)
{
	struct plain p = {.ctx = ctx, .at = NQ_L4_END, .bytes = message_bytes};
	struct frame *f = data_of(ctx);
	struct nq_base *base = (void *)(f + 1);
	enum way way;

	if ((void *)(base + 1) > end_of(ctx))
		return -1;
	p.from_addr = p.client_addr = ip_of(f)->saddr;
	p.from_port = p.client_port = udp_of(f)->source;
	p.op = base->op;
	way = p.op == NQ_OP_READ ? read_alone(&p) : chain_alone(&p);
	if (way == NOT_PLAIN)
		return -1;
	return way == WAY_NONE ? XDP_DROP : send_alone(&p, way);
}

#endif
