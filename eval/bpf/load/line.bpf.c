// SPDX-License-Identifier: GPL-2.0
/*
 * The wires of a benchmark's line of nodes: frames that arrive at one end leave at the other, unless the wire loses them or
 * the switch behind it has no capacity left. Frames that XDP redirects bypass queueing disciplines, so this program enforces
 * the limit. Random numbers come from the kernel, without a seed.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MAX_ENDS 256
#define MILLION 1000000

/* The end of a wire, by the interface at which frames arrive. */
struct end {
	__u32 exit; /* the interface at which they leave */
	__u32 to;   /* the switch behind the exit, an index of `switches`; 0: none */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_ENDS);
	__type(key, __u32);
	__type(value, struct end);
} ends SEC(".maps");

/* The limit of a switch for frames from all its wires. */
struct limit {
	__u64 frame_ns; /* time per frame; 0: no limit */
	__u64 burst_ns; /* largest backlog */
	__u64 busy_until_ns;
	__u64 refused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_ENDS);
	__type(key, __u32);
	__type(value, struct limit);
} switches SEC(".maps");

__u32 loss; /* lost frames per million on every wire */
__u64 lost;

/* Returns whether the switch accepts a frame now. Concurrent CPUs may both get the last slot. */
static __always_inline int takes(struct limit *l)
{
	__u64 now = bpf_ktime_get_ns(), until = l->busy_until_ns;

	if (!l->frame_ns)
		return 1;
	if (until < now)
		until = now;
	if (until > now + l->burst_ns) {
		l->refused++;
		return 0;
	}
	l->busy_until_ns = until + l->frame_ns;
	return 1;
}

SEC("xdp")
int wire(struct xdp_md *ctx)
{
	__u32 at = ctx->ingress_ifindex;
	struct end *end = bpf_map_lookup_elem(&ends, &at);
	struct limit *limit;

	if (!end || !end->exit)
		return XDP_DROP;
	if (loss && bpf_get_prandom_u32() % MILLION < loss) {
		lost++;
		return XDP_DROP;
	}
	limit = end->to ? bpf_map_lookup_elem(&switches, &end->to) : 0;
	if (limit && !takes(limit))
		return XDP_DROP;
	return bpf_redirect(end->exit, 0);
}

/* Background traffic: frames by their exit interface. BPF_PROG_RUN runs it with live frames, as it runs `generate`. */
#define FRAME_WORDS 8
#define FRAME_BYTES 60

struct background_frame {
	__u64 words[FRAME_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_ENDS);
	__type(key, __u32);
	__type(value, struct background_frame);
} frames SEC(".maps");

SEC("xdp")
int background(struct xdp_md *ctx)
{
	__u32 at = ctx->ingress_ifindex;
	struct background_frame *frame = bpf_map_lookup_elem(&frames, &at);
	void *data;

	if (!frame || bpf_xdp_adjust_tail(ctx, -1))
		return XDP_ABORTED;
	data = (void *)(long)ctx->data;
	if (data + FRAME_BYTES > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
#pragma unroll
	for (int i = 0; i < FRAME_BYTES / 8; i++)
		((__u64 *)data)[i] = frame->words[i];
	*(__u32 *)(data + FRAME_BYTES - 4) = frame->words[FRAME_WORDS - 1];
	return XDP_TX;
}

char _license[] SEC("license") = "GPL";
