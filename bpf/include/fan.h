/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Multicast: one packet in, many out. XDP clones only by broadcast to a devmap, and every copy for a device runs the
 * same egress program, on the same CPU and in the order of the slots. So the ingress program writes down all copies in a
 * plan, stamps the plan's number into the frame and broadcasts it to as many slots; the egress program turns each
 * copy it meets into the next one of the plan that leaves by its device.
 */
#ifndef NQ_FAN_H
#define NQ_FAN_H

#define NQ_PLANS 256 /* more than one NAPI poll can leave unsent */

struct nq_copy {
	__u32 ifindex; /* 0: done */
	__be32 addr;
	__be16 port;
	__u8 answer; /* the client's, else an ACK */
	__u8 reserved;
	__u8 dmac[ETH_ALEN];
	__u8 smac[ETH_ALEN];
};

/* What the ingress program puts in place of the Ethernet addresses of a frame it broadcasts. */
struct nq_stamp {
	__u32 magic;
	__u32 plan;
	__u32 reserved;
} __attribute__((packed));
_Static_assert(sizeof(struct nq_stamp) == 2 * ETH_ALEN, "a stamp replaces both addresses");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} nq_next_plan SEC(".maps");

/* Row r, column n: a devmap with n slots of port r; row NQ_FAN_ALL: with n slots of every port. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, (NQ_FAN_PORTS + 1) * NQ_FAN_COLUMNS);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_DEVMAP);
		__uint(max_entries, 1);
		__type(key, __u32);
		__uint(value_size, sizeof(struct bpf_devmap_val));
	});
} nq_fans SEC(".maps");

/* Numbers the next plan; false if it can't. */
static __always_inline int next_plan(__u32 *number)
{
	__u32 zero = 0;
	__u32 *next = bpf_map_lookup_elem(&nq_next_plan, &zero);

	if (next)
		*number = (*next)++ & (NQ_PLANS - 1);
	return next != 0;
}

/* Beside a port, in one argument: the copy is the client's answer, not an ACK. */
#define NQ_IS_ANSWER (1 << 16)

/* Adds the copy to dst; a BPF_FIB_LKUP_RET_*, 0 on success. */
static __noinline long plan_copy(struct xdp_md *ctx, struct nq_copy *copy, __be32 addr, __u32 port_answer)
{
	struct bpf_fib_lookup fib;
	__be16 port = port_answer & 0xffff;
	long rc = fib_lookup(ctx, &fib, addr, port, 0);

	copy->ifindex = 0;
	if (rc)
		return rc;
	copy->ifindex = fib.ifindex;
	copy->addr = addr;
	copy->port = port;
	copy->answer = port_answer >> 16;
	__builtin_memcpy(copy->dmac, fib.dmac, ETH_ALEN);
	__builtin_memcpy(copy->smac, fib.smac, ETH_ALEN);
	return 0;
}

/*
 * Broadcasts the frame as n copies of the plan, all by the device ifindex, or, if that is 0, by several; the frame is
 * long enough for every copy.
 */
static __always_inline int fan_out(struct xdp_md *ctx, __u32 number, __u32 n, __u32 ifindex)
{
	struct nq_stamp *stamp = data_of(ctx);
	__u32 row = NQ_FAN_ALL, cell;
	struct nq_port *known;
	void *fan;

	if ((void *)(stamp + 1) > end_of(ctx))
		return XDP_DROP;
	stamp->magic = NQ_PLAN_MAGIC;
	stamp->plan = number;
	stamp->reserved = 0;
	if (ifindex) {
		known = port_at(ifindex);
		if (known)
			row = known->row;
	}
	cell = row * NQ_FAN_COLUMNS + n;
	fan = bpf_map_lookup_elem(&nq_fans, &cell);
	if (!fan)
		return drop(0, NQ_OUTCOME_UNROUTABLE);
	return bpf_redirect_map(fan, 0, BPF_F_BROADCAST);
}

/* Whether the frame is a clone, and of which plan. */
static __always_inline int read_stamp(struct xdp_md *ctx, __u32 *number)
{
	struct nq_stamp *stamp = data_of(ctx);

	if ((void *)(stamp + 1) > end_of(ctx) || stamp->magic != NQ_PLAN_MAGIC)
		return 0;
	*number = stamp->plan & (NQ_PLANS - 1);
	return 1;
}

/* The plan's next copy for this device, which is done then; 0 if there is none. */
static __always_inline struct nq_copy *take_copy(struct nq_copy copies[NQ_MAX_CHAIN], __u32 ifindex)
{
	for (int i = 0; i < NQ_MAX_CHAIN; i++) {
		if (copies[i].ifindex != ifindex)
			continue;
		copies[i].ifindex = 0;
		return &copies[i];
	}
	return 0;
}

/* Writes the headers of a copy whose message has n bytes, its trailer included. */
static __always_inline void write_headers(struct frame *f, const struct nq_copy *copy, __u32 n)
{
	__builtin_memcpy(f->eth.h_dest, copy->dmac, ETH_ALEN);
	__builtin_memcpy(f->eth.h_source, copy->smac, ETH_ALEN);
	*proto_of(f) = bpf_htons(ETH_P_IP);
	write_l3(f, copy->addr, copy->port, n);
}

#endif
