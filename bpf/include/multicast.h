/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Multicast: one packet in, many out. XDP clones only by broadcast to a devmap, and every clone for a device runs the
 * same egress program, on the same CPU, in the order of the slots. So the ingress program lists all clones in a
 * descriptor, writes the descriptor's number into the frame (the frame tag) and broadcasts the frame to as many slots.
 * The egress program turns each frame into the descriptor's next clone for its device. With --relay one RELAY goes up
 * the chain instead: 2n hops, not n + 1.
 */
#ifndef NQ_MULTICAST_H
#define NQ_MULTICAST_H

#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_helpers.h>

#include "fib.h"
#include "packet.h"
#include "program.h"
#include "wire.gen.h"

#define NQ_DESCRIPTORS 256 /* more than one NAPI poll can leave unsent */

struct nq_clone {
	__u32 ifindex; /* 0: done */
	__be32 addr;
	__be16 port;
	__u8 answer; /* the client's, else an ACK */
	__u8 reserved;
	__u8 dmac[ETH_ALEN];
	__u8 smac[ETH_ALEN];
	struct nq_trailer trailer; /* of nodes with tags: each receiver's is another */
};

/* The ingress program puts it in place of the Ethernet addresses of a frame it broadcasts. */
struct nq_frame_tag {
	__u32 magic;
	__u32 descriptor;
	__u32 reserved;
} __attribute__((packed));
_Static_assert(sizeof(struct nq_frame_tag) == 2 * ETH_ALEN, "a frame tag replaces both addresses");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} nq_next_descriptor SEC(".maps");

/* Row r, column n: a devmap with n slots of port r; row NQ_GROUP_ALL: with n slots of every port. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, (NQ_GROUP_PORTS + 1) * NQ_GROUP_COLUMNS);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_DEVMAP);
		__uint(max_entries, 1);
		__type(key, __u32);
		__uint(value_size, sizeof(struct bpf_devmap_val));
	});
} nq_groups SEC(".maps");

/* Takes the number of the next descriptor; false if there is none. */
static __always_inline int next_descriptor(__u32 *number)
{
	__u32 zero = 0;
	__u32 *next = bpf_map_lookup_elem(&nq_next_descriptor, &zero);

	if (next)
		*number = (*next)++ & (NQ_DESCRIPTORS - 1);
	return next != 0;
}

/* Or-ed to a port: the clone is the client's answer, not an ACK. */
#define NQ_IS_ANSWER (1 << 16)

/* Fills in a clone for dst; a BPF_FIB_LKUP_RET_*, 0 on success. */
static __noinline long add_clone(struct xdp_md *ctx, struct nq_clone *clone, __be32 addr, __u32 port_answer)
{
	struct bpf_fib_lookup fib;
	__be16 port = port_answer & 0xffff;
	long rc = fib_lookup(ctx, &fib, addr, port, 0);

	clone->ifindex = 0;
	if (rc)
		return rc;
	clone->ifindex = fib.ifindex;
	clone->addr = addr;
	clone->port = port;
	clone->answer = port_answer >> 16;
	__builtin_memcpy(clone->dmac, fib.dmac, ETH_ALEN);
	__builtin_memcpy(clone->smac, fib.smac, ETH_ALEN);
	return 0;
}

/*
 * Broadcasts the frame as n clones of the descriptor, all by the device ifindex, or, if that is 0, by several; the frame is
 * long enough for every clone.
 */
static __always_inline int multicast(struct xdp_md *ctx, __u32 number, __u32 n, __u32 ifindex)
{
	struct nq_frame_tag *tag = data_of(ctx);
	__u32 row = NQ_GROUP_ALL, cell;
	struct nq_port *known;
	void *group;

	if ((void *)(tag + 1) > end_of(ctx))
		return XDP_DROP;
	tag->magic = NQ_FRAME_TAG_MAGIC;
	tag->descriptor = number;
	tag->reserved = 0;
	if (ifindex) {
		known = port_at(ifindex);
		if (known)
			row = known->row;
	}
	cell = row * NQ_GROUP_COLUMNS + n;
	group = bpf_map_lookup_elem(&nq_groups, &cell);
	if (!group)
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	return bpf_redirect_map(group, 0, BPF_F_BROADCAST);
}

/* Reads the descriptor's number from the frame tag; false if the frame has none. */
static __always_inline int read_frame_tag(struct xdp_md *ctx, __u32 *number)
{
	struct nq_frame_tag *tag = data_of(ctx);

	if ((void *)(tag + 1) > end_of(ctx) || tag->magic != NQ_FRAME_TAG_MAGIC)
		return 0;
	*number = tag->descriptor & (NQ_DESCRIPTORS - 1);
	return 1;
}

/* The descriptor's next clone for this device, marked as done; 0 if there is none. */
static __always_inline struct nq_clone *take_clone(struct nq_clone clones[NQ_MAX_CHAIN], __u32 ifindex)
{
	for (int i = 0; i < NQ_MAX_CHAIN; i++) {
		if (clones[i].ifindex != ifindex)
			continue;
		clones[i].ifindex = 0;
		return &clones[i];
	}
	return 0;
}

/* Writes the headers of a clone whose message has n bytes, its trailer included. */
static __always_inline void write_headers(struct frame *f, const struct nq_clone *clone, __u32 n)
{
	__builtin_memcpy(f->eth.h_dest, clone->dmac, ETH_ALEN);
	__builtin_memcpy(f->eth.h_source, clone->smac, ETH_ALEN);
	*proto_of(f) = bpf_htons(ETH_P_IP);
	write_l3(f, clone->addr, clone->port, n);
}

#endif
