// SPDX-License-Identifier: GPL-2.0
/*
 * Load for memcached over UDP, made in the kernel: `generate` writes "get" requests, `count` checks every answer. Keys have
 * 16 characters; the value of a key follows from it as in loadgen.h.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "loadgen.h"

#include "loadgen_clock.h"

/* memcached's header of requests and answers: the numbers of the request and of this datagram, the datagram count. */
struct mc_header {
	__be16 request, datagram, datagrams, reserved;
};

#define MC_MESSAGE (HEADERS_BYTES + sizeof(struct mc_header))
#define MC_KEY_BYTES 16
#define MC_REQUEST_KEY (MC_MESSAGE + 4)			     /* behind "get " */
#define MC_REQUEST_BYTES (MC_REQUEST_KEY + MC_KEY_BYTES + 2) /* and "\r\n" */
#define MC_ANSWER_KEY (MC_MESSAGE + 6)			     /* behind "VALUE " */
#define MC_ANSWER_MIN (MC_MESSAGE + 5)			     /* "END\r\n": no value */

volatile const __u32 value_at;	   /* offset of the value in an answer */
volatile const __u32 answer_bytes; /* length of an answer */

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	struct counters *counters = own_counters();
	struct wire_key *key = next_key(counters);
	__u8 *data = key ? make_frame(ctx, MC_REQUEST_BYTES) : NULL;

	if (!data)
		return XDP_ABORTED;
	write_template(data, 0, MC_REQUEST_BYTES);
	((struct mc_header *)(data + HEADERS_BYTES))->request = bpf_htons(counters->sent);
	((__u64 *)(data + MC_REQUEST_KEY))[0] = key->hi;
	((__u64 *)(data + MC_REQUEST_KEY))[1] = key->lo;
	counters->sent++;
	return XDP_TX;
}
_Static_assert(MC_REQUEST_BYTES % 8 == 0, "a request is made of words");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	struct counters *counters = own_counters();
	__u64 *key = (void *)(data + MC_ANSWER_KEY), sum = 0;
	__u32 why = 0;

	if (data + MC_ANSWER_MIN > data_end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP ||
	    udp->dest != client_port)
		return XDP_PASS;
	if (data[MC_MESSAGE] == 'E') {
		counters->not_found++;
		return XDP_DROP;
	}
	if (data_end - data != answer_bytes || data + answer_bytes > data_end)
		why |= WHY_SIZE;
	else if (data + value_at + value_bytes > data_end || (void *)(key + 2) > (void *)data_end)
		why |= WHY_SIZE;
	else if (read_value(data + value_at, key[0], key[1], &sum))
		why |= WHY_VALUE;
	count_ok(counters, why, 0);
	return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
