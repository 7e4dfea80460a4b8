// SPDX-License-Identifier: GPL-2.0
/*
 * One node of any number of chains, as an XDP program. It is held to internal/node/chain: the same bytes out, the same
 * state, the same counts for every packet.
 *
 *   packet.h   frames and sums            message.h  messages: checks, answers
 *   state.h    state of a node            tables.h   where: tables        lock.h  their locks
 *   objects.h  the table of objects
 *   fib.h      the FIB, TTL, redirects    route.h    messages that leave
 *   multicast.h  multicast                clone.h    of ACKs
 *   read.h     R1 to R5                   write.h    W1 to W5, the head
 *   update.h   W6 to W9, the chain        grow.h     long answers to packets from sockets
 *   detour.h   messages that leave at tc ingress
 *   fast.h    the fast path, in place: fast_write.h, fast_read.h, single.h
 *   bundle.h   B1 to B5
 *   heartbeat.h H1 to H4
 *   copy.h     copies between nodes    tag.h     T1 to T5: tags      rate.h    T4, T6: rates
 *   nearby.h   R6: reads by processes of this machine
 *
 * One object runs from Linux 6.1 on, on x86-64 and arm64: constants at load time select the differences, and on x86-64
 * the verifier removes the fences. Old verifiers refuse code that later ones accept, and 6.1 allows 512 bytes of
 * stack, so bundles have a program of their own (TestStackFitsOldestKernel). On arm64 a read takes two atomic
 * instructions more, and each unlock one (TestBarriersAreBarriers).
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "wire.gen.h"

#include "state.h"

#include "lock.h"

#include "tables.h"

#include "objects.h"

#include "packet.h"

#include "fib.h"

#include "route.h"

#include "rate.h"

#include "message.h"

#include "tag.h"

#include "multicast.h"

#include "clone.h"

#include "read.h"

#include "write.h"

#include "update.h"

#include "heartbeat.h"

#include "fast.h"

#include "fast_write.h"

#include "fast_read.h"

#include "single.h"

#include "bundle.h"

#include "detour.h"

#include "grow.h"

#include "copy.h"

#include "nearby.h"

static __always_inline int not_mine(struct xdp_md *ctx, struct nq_work *w, int chain_op, __be32 epoch)
{
	count(w->op, NQ_OUTCOME_NOT_MINE);
	if (chain_op)
		return XDP_DROP;
	return answer(ctx, w, NQ_STATUS_NOT_MINE, 0, epoch);
}

/* A9 and A10: is the shard served here, and may the sender say this? */
static __noinline int admit(struct xdp_md *ctx, struct nq_work *w)
{
	int chain_op = w->op >= NQ_OP_FORWARD && w->op <= NQ_OP_RELAY;
	struct nq_chain_config *c;
	struct nq_live *live;

	w->client_op = w->op;
	if (w->op == NQ_OP_FORWARD || w->op == NQ_OP_UPDATE || w->op == NQ_OP_RELAY) {
		w->client_addr = w->in.chain.client_lo >> 32;
		w->client_port = w->in.chain.client_port;
		w->client_op = w->in.chain.client_op;
	}
	w->shard = bpf_ntohs(w->in.base.shard);
	if (w->shard > nq_shard_mask)
		return not_mine(ctx, w, chain_op, 0);
	if (((__u32)bpf_be64_to_cpu(w->in.base.key_lo) & nq_shard_mask) != w->shard)
		return chain_op ? drop(w->op, NQ_OUTCOME_MALFORMED) : bad_request(ctx, w, 0);
	live = bpf_map_lookup_elem(&nq_live, &w->shard);
	if (!live)
		return XDP_DROP;
	w->slot = w->shard * 2 + (live->slot & 1);
	c = bpf_map_lookup_elem(&nq_chains, &w->slot);
	if (!c)
		return XDP_DROP;
	if (c->state == NQ_STATE_NONE)
		return not_mine(ctx, w, chain_op, live->epoch);
	w->is_tail = is_tail(c);
	if (is_costly(nq_cell_bytes) && (w->client_op == NQ_OP_READ || w->client_op == NQ_OP_CAS))
		w->has_credit = has_credit(w->client_addr);
	if (w->op == NQ_OP_FORWARD && !is_other(w, c))
		return drop(w->op, NQ_OUTCOME_STRANGER);
	if (chain_op && w->op != NQ_OP_FORWARD)
		return from_chain(ctx, w, c);
	if (w->client_op == NQ_OP_READ)
		return read(ctx, w, live, c);
	return write(ctx, w, live, c);
}

/* Copies, checks and handles one message. */
static __noinline int handle(struct xdp_md *ctx, struct nq_work *w, __u32 message_bytes, int tagged)
{
	struct frame *f = data_of(ctx);
	__u32 outcome;

	if ((void *)(f + 1) > end_of(ctx))
		return XDP_DROP;
	w->from_addr = w->client_addr = ip_of(f)->saddr;
	w->from_port = w->client_port = udp_of(f)->source;
	w->is_tail = 0;
	w->costly_bytes = 0;
	outcome = load_message(ctx, NQ_L4_END, w, message_bytes, tagged);
	if (outcome != ACCEPTED)
		return drop(0, outcome);
	if (tagged ? !tag_holds(ctx, w, message_bytes) : nq_tags == NQ_TAGS_REQUIRED)
		return drop(0, NQ_OUTCOME_BAD_TAG);
	w->op = w->in.base.op;
	if (nq_client_rate && w->op < NQ_OP_FORWARD && !within_rate(w->from_addr))
		return drop(w->op, NQ_OUTCOME_LIMITED);
	outcome = decode(w, message_bytes);
	if (outcome == NQ_OUTCOME_BAD_REQUEST)
		return bad_request(ctx, w, 0);
	if (outcome != ACCEPTED)
		return drop(w->op, outcome);
	return admit(ctx, w);
}

/* The slow path: every message but the fast read of a clean object. */
static __always_inline int slow_path(struct xdp_md *ctx, __u32 message_bytes, int tagged)
{
	__u32 zero = 0;
	struct nq_work *w = bpf_map_lookup_elem(&nq_works, &zero);
	int action;

	if (!w)
		return XDP_DROP;
	action = handle(ctx, w, message_bytes, tagged);
	if (w->costly_bytes)
		afford(w->client_addr, w->costly_bytes);
	if (trailer_bytes() && (action == THEN_BACK || action == THEN_ROUTE) && tag_message(ctx, w, w->send_bytes))
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	switch (action) {
	case THEN_BACK:
		return send_back(ctx, w->send_addr, w->send_port, w->send_bytes);
	case THEN_ROUTE:
		return route(ctx, w->send_addr, w->send_port, w->send_bytes);
	case THEN_CLONE:
		return clone_out(ctx, w);
	}
	return action;
}

/*
 * Bundles are for nodes that send no tags and don't limit clients' rates. Their program starts with an empty stack:
 * together with the calls below it, that of nq_ingress would be more than Linux 6.1 allows.
 */
static __always_inline int several(struct xdp_md *ctx)
{
	if (trailer_bytes())
		return drop(0, NQ_OUTCOME_BAD_TAG);
	if (nq_client_rate)
		return drop(NQ_OP_BUNDLE, NQ_OUTCOME_LIMITED);
	bpf_tail_call(ctx, &nq_programs, NQ_PROGRAM_BUNDLE);
	return drop(NQ_OP_BUNDLE, NQ_OUTCOME_UNROUTABLE);
}

static __always_inline int ingress(struct xdp_md *ctx)
{
	__u32 message_bytes = 0;
	struct nq_base *base;
	int action, tagged;

	if (!nq_tags && !nq_client_rate) {
		action = read_clean(ctx);
		if (action >= 0)
			return action;
	}
	switch (parse(ctx, &message_bytes)) {
	case PARSED_PASS:
		return XDP_PASS;
	case PARSED_TRANSIT:
		return may_pass(ctx) ? transit(ctx) : XDP_PASS;
	case PARSED_BAD_CHECKSUM:
		return drop(0, NQ_OUTCOME_BAD_CHECKSUM);
	case PARSED_TRUNCATED:
		return drop(0, NQ_OUTCOME_TRUNCATED);
	case PARSED_OURS:
		break;
	}
	base = data_of(ctx) + NQ_L4_END;
	if (message_bytes >= NQ_BASE_BYTES && (void *)(base + 1) <= end_of(ctx) && claims_heartbeat(base))
		return heartbeat(ctx, message_bytes); /* without a trailer */
	if (message_bytes < NQ_BASE_BYTES || (void *)(base + 1) > end_of(ctx))
		return drop(0, NQ_OUTCOME_TRUNCATED);
	if (base->magic != bpf_htons(NQ_MAGIC))
		return drop(0, NQ_OUTCOME_BAD_MAGIC);
	tagged = nq_tags && base->version == (NQ_WIRE_VERSION | NQ_TAGGED_MARK);
	if (base->version != NQ_WIRE_VERSION && !tagged)
		return drop(0, NQ_OUTCOME_BAD_VERSION);
	if (tagged) {
		if (message_bytes < NQ_BASE_BYTES + NQ_TRAILER_BYTES)
			return drop(0, NQ_OUTCOME_TRUNCATED);
		message_bytes -= NQ_TRAILER_BYTES;
	} else if (base->op == NQ_OP_BUNDLE)
		return several(ctx);
	if (!nq_tags && !nq_client_rate && !nq_without) {
		action = fast_single(ctx, message_bytes);
		if (action >= 0)
			return action;
	}
	return slow_path(ctx, message_bytes, tagged);
}

SEC("xdp")
int nq_ingress(struct xdp_md *ctx)
{
	return ingress(ctx);
}

SEC("xdp")
int nq_bundle(struct xdp_md *ctx)
{
	return bundle(ctx);
}

SEC("xdp/devmap")
int nq_egress(struct xdp_md *ctx)
{
	return egress(ctx, ctx->egress_ifindex);
}

/* The egress program for tests: BPF_PROG_RUN takes no program of the devmap kind. */
SEC("xdp")
int nq_egress_test(struct xdp_md *ctx)
{
	return egress(ctx, nq_test_ifindex);
}

SEC("tc")
int nq_grow(struct __sk_buff *skb)
{
	return grow(skb);
}

/* Keeps the types in the object's BTF, where Go compares them. */
const struct nq_punt *keep_punt __attribute__((unused));
const struct nq_port_cell *keep_port_cell __attribute__((unused));
const enum nq_group keep_group __attribute__((unused)) = NQ_GROUP_ALL;
const enum nq_counter_index keep_counter_index __attribute__((unused)) = NQ_OUTCOME_BITS;
const enum nq_key_sets keep_key_sets __attribute__((unused)) = NQ_KEY_SETS;
const enum nq_tag_phase keep_tag_phase __attribute__((unused)) = NQ_TAGS_OFF;
const enum nq_rule keep_rule __attribute__((unused)) = NQ_RULE_W2;
const enum nq_clock_limit keep_clock_limit __attribute__((unused)) = NQ_CLOCK_JUMP;
const enum nq_state keep_state __attribute__((unused)) = NQ_STATE_NONE;
const struct nq_heart_request *keep_heart_request __attribute__((unused));
const struct nq_batch *keep_batch __attribute__((unused));
const struct nq_record *keep_record __attribute__((unused));
const struct nq_session_record *keep_session_record __attribute__((unused));
const enum nq_record_state keep_record_state __attribute__((unused)) = NQ_RECORD_ABSENT;
const struct nq_nearby_record *keep_nearby_record __attribute__((unused));
const struct nq_nearby_request *keep_nearby_request __attribute__((unused));
const enum nq_nearby_limit keep_nearby_limit __attribute__((unused)) = NQ_NEARBY_READS;
const enum nq_program keep_program __attribute__((unused)) = NQ_PROGRAM_BUNDLE;
const enum nq_shape keep_shape __attribute__((unused)) = NQ_USED;
const enum nq_run keep_run __attribute__((unused)) = NQ_RUN;
const enum nq_table keep_table __attribute__((unused)) = NQ_TABLE_OBJECTS;

char _license[] SEC("license") = "GPL";
