// SPDX-License-Identifier: GPL-2.0
/*
 * Load made in the kernel: `generate` writes requests, `count` checks every answer, `swap` is the limit for comparison.
 * They support NetCRAQ and the papers' protocols.
 *
 * All constants in .rodata are set when the object is loaded, so the verifier removes the code that a run does not need.
 * The host is little-endian: checksums are summed in host order, as RFC 1071 allows.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "wire.gen.h"

#include "loadgen.h"

#include "loadgen_netcraq.h"

#include "loadgen_bundle.h"

#include "loadgen_netchain.h"

#include "loadgen_netcraqpaper.h"

/* BPF_PROG_RUN runs this program with live frames. Their buffers return as the last reader left them, so the program
 * writes every significant byte. It also truncates the frame, which is given at least one byte too long: the kernel takes
 * the length from this program only if the program has changed it, and from the last reader otherwise.
 */
SEC("xdp")
int generate(struct xdp_md *ctx)
{
	struct counters *counters = own_counters();
	struct wire_key *key;
	__u64 nth = counters->sent;
	_Bool writing = writes_next(nth);

	if (slots)
		return generate_bundle(ctx, counters);
	key = next_key(counters);
	if (!key)
		return XDP_ABORTED;
	counters->sent++;
	took_off(nth);
	switch (dialect) {
	case NETCHAIN:
		return writing ? generate_netchain(ctx, key, 1, nth) : generate_netchain(ctx, key, 0, nth);
	case NETCRAQPAPER:
		return generate_netcraqpaper(ctx, key, writing, nth);
	}
	return generate_netcraq(ctx, counters, key, writing, nth);
}

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);

	if ((void *)(udp + 1) > (void *)data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP)
		return XDP_PASS;
	switch (dialect) {
	case NETCHAIN:
		return count_netchain(own_counters(), udp, data, data_end);
	case NETCRAQPAPER:
		return count_netcraqpaper(own_counters(), udp, data, data_end);
	}
	if (slots)
		return count_bundle(own_counters(), udp, data, data_end);
	return count_netcraq(own_counters(), udp, data, data_end);
}

/* The limit of this machine: swaps the addresses and returns a packet of the answer's size. */
SEC("xdp")
int swap(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	__u16 *mac = (void *)data, part;
	__u32 addr;
	__u16 port;

	if ((void *)(udp + 1) > (void *)data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP)
		return XDP_PASS;
#pragma unroll
	for (int i = 0; i < ETH_ALEN / 2; i++) {
		part = mac[i];
		mac[i] = mac[i + ETH_ALEN / 2];
		mac[i + ETH_ALEN / 2] = part;
	}
	addr = ip->daddr;
	ip->daddr = ip->saddr;
	ip->saddr = addr;
	port = udp->dest;
	udp->dest = udp->source;
	udp->source = port;
	if (slots)
		return XDP_TX; /* a bundle of answers is as long as one of requests */
	if (bpf_xdp_adjust_tail(ctx, (int)reply_bytes(write_share == ALL_WRITES) - (int)(data_end - data)))
		return XDP_ABORTED;
	return XDP_TX;
}

/* For a port whose peer answers with XDP_TX: veth wakes a receiver only if it has an XDP program. */
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
