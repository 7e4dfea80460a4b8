/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lab's wire. A link between two hosts is two veth pairs. Their near ends are in the hosts and their far ends in the
 * namespace "wires". This program runs on the far ends: it sends frames that arrive at one out of the other, unless it
 * injects a fault. All traffic of a link passes here, in both directions, from sockets, the kernel's forwarding and XDP.
 *
 * Maps are indexed by the interface at which a frame arrives, so every direction of a link has its own rule and counters.
 * Random numbers come from the kernel, without a seed.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_INTERFACES 1024
#define MILLION 1000000

/* Kinds of traffic that a fault may spare: requests and messages between nodes are data, all else is control. */
#define TRAFFIC_DATA 1
#define TRAFFIC_CONTROL 2

/* Rates of faults in frames per million, and the traffic that they spare. */
struct rule {
	__u32 loss;
	__u32 duplicate;
	__u32 corrupt;
	__u32 spared; /* kinds of traffic */
	__u32 off;    /* drop everything: the sending or receiving host is powered off */
};

struct injected {
	__u64 frames; /* frames that arrived */
	__u64 lost;
	__u64 duplicated;
	__u64 corrupted;
	__u64 cut; /* lost to a partition or to a powered-off host */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_INTERFACES);
	__type(key, __u32);
	__type(value, struct rule);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_INTERFACES);
	__type(key, __u32);
	__type(value, struct injected);
} injected SEC(".maps");

struct pair {
	__be32 from;
	__be32 to;
};

/* Partitioned pairs of hosts, by direction -> the kinds of traffic to drop. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct pair);
	__type(value, __u32);
} cuts SEC(".maps");

/* The exit of frames: both slots hold the same interface, so that a broadcast over them sends a duplicate. */
struct exit_map {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_INTERFACES);
	__type(key, __u32);
	__array(values, struct exit_map);
} exits SEC(".maps");

static __always_inline int chance(__u32 per_million)
{
	return per_million && bpf_get_prandom_u32() % MILLION < per_million;
}

static __always_inline struct iphdr *ipv4(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + sizeof(*eth);

	return (void *)(ip + 1) <= end && eth->h_proto == bpf_htons(ETH_P_IP) ? ip : 0;
}

static __always_inline __u32 traffic(const struct iphdr *ip)
{
	return ip && ip->protocol == IPPROTO_UDP ? TRAFFIC_DATA : TRAFFIC_CONTROL;
}

/* Returns whether a partition separates the sender from the receiver. */
static __always_inline int cut(const struct iphdr *ip)
{
	struct pair pair;
	__u32 *kinds;

	if (!ip)
		return 0;
	pair.from = ip->saddr;
	pair.to = ip->daddr;
	kinds = bpf_map_lookup_elem(&cuts, &pair);
	return kinds && (*kinds & traffic(ip));
}

/* Flips one bit behind the Ethernet header. Returns whether it did. */
static __always_inline int corrupt(struct xdp_md *ctx)
{
	__u32 length = ctx->data_end - ctx->data;
	__u32 random = bpf_get_prandom_u32();
	__u32 offset;
	__u8 byte;

	if (length <= ETH_HLEN)
		return 0;
	offset = ETH_HLEN + (random >> 3) % (length - ETH_HLEN);
	if (bpf_xdp_load_bytes(ctx, offset, &byte, 1))
		return 0;
	byte ^= 1 << (random & 7);
	return !bpf_xdp_store_bytes(ctx, offset, &byte, 1);
}

SEC("xdp")
int wire(struct xdp_md *ctx)
{
	__u32 at = ctx->ingress_ifindex;
	struct rule *rule = bpf_map_lookup_elem(&rules, &at);
	struct injected *count = bpf_map_lookup_elem(&injected, &at);
	void *exit = bpf_map_lookup_elem(&exits, &at);
	struct iphdr *ip = ipv4(ctx);

	if (!rule || !count || !exit)
		return XDP_ABORTED;
	count->frames++;
	if (rule->off || cut(ip)) {
		count->cut++;
		return XDP_DROP;
	}
	if (rule->spared & traffic(ip))
		return bpf_redirect_map(exit, 0, 0);
	if (chance(rule->loss)) {
		count->lost++;
		return XDP_DROP;
	}
	if (chance(rule->corrupt) && corrupt(ctx))
		count->corrupted++;
	if (chance(rule->duplicate)) {
		count->duplicated++;
		return bpf_redirect_map(exit, 0, BPF_F_BROADCAST);
	}
	return bpf_redirect_map(exit, 0, 0);
}

char LICENSE[] SEC("license") = "GPL";
