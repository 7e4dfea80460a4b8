// SPDX-License-Identifier: Apache-2.0
// Ports of the pipeline: network interfaces through packet sockets, the CPU port, the host, and the frames of tests.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rte_swx_port.h>

#include "engine.h"

uint64_t clock_now(const struct engine *e)
{
	struct timespec t;
	if (e->clock)
		return e->clock;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct frame *take(struct engine *e)
{
	struct frame *f = e->free;
	if (f)
		e->free = f->next;
	return f;
}

static void give(struct engine *e, struct frame *f)
{
	f->next = e->free;
	e->free = f;
}

// enqueue puts platform_h in front of a frame, whose bytes begin at HEADROOM. The caller may fill in more of its fields.
static uint8_t *enqueue(struct network *n, struct frame *f, uint32_t length)
{
	uint64_t now = htobe64(clock_now(n->engine));
	uint16_t bytes = htons(length);
	uint8_t *platform = f->data + HEADROOM - PLATFORM_BYTES;
	memset(platform, 0, PLATFORM_BYTES);
	memcpy(platform, &now, sizeof now);
	memcpy(platform + sizeof now, &bytes, sizeof bytes);
	platform[PLATFORM_PORT] = n->id;
	f->length = length;
	f->next = NULL;
	if (n->last)
		n->last->next = f;
	else
		n->first = f;
	n->last = f;
	n->engine->under_way++;
	return platform;
}

static int receive(void *port, struct rte_swx_pkt *p)
{
	struct network *n = port;
	struct frame *f = n->first;
	if (!f)
		return 0;
	if (!(n->first = f->next))
		n->last = NULL;
	*p = (struct rte_swx_pkt){
		.handle = f, .pkt = f->data, .offset = HEADROOM - PLATFORM_BYTES, .length = f->length + PLATFORM_BYTES,
	};
	return 1;
}

// again hands copies of a frame, which begins with platform_h, to the program. A copy without a buffer is lost.
static void again(struct network *n, const uint8_t *bytes, uint32_t length)
{
	if (length < PLATFORM_BYTES || length - PLATFORM_BYTES > BUFFER_BYTES - HEADROOM)
		return;
	for (int i = 0; i < bytes[PLATFORM_COPIES]; i++) {
		struct frame *f = take(n->engine);
		if (!f) {
			n->engine->lost++;
			continue;
		}
		memset(f->data, 0, sizeof f->data);
		memcpy(f->data + HEADROOM, bytes + PLATFORM_BYTES, length - PLATFORM_BYTES);
		uint8_t *platform = enqueue(n, f, length - PLATFORM_BYTES);
		platform[PLATFORM_COPY] = i;
		memcpy(platform + PLATFORM_NOTE, bytes + PLATFORM_NOTE, PLATFORM_BYTES - PLATFORM_NOTE);
	}
}

static void flush(void *port)
{
	struct network *n = port;
	struct mmsghdr messages[BURST];
	struct iovec parts[BURST];
	if (!n->waiting)
		return;
	memset(messages, 0, sizeof messages);
	for (uint32_t i = 0; i < n->waiting; i++) {
		parts[i] = (struct iovec){n->out[i].frame->data + n->out[i].offset, n->out[i].length};
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	// What the interface refuses is lost, as on a wire.
	for (uint32_t done = 0; done < n->waiting;) {
		int k = sendmmsg(n->fd, messages + done, n->waiting - done, MSG_DONTWAIT);
		if (k > 0) {
			done += k;
			n->sent += k;
			continue;
		}
		done++;
		n->unsent++;
	}
	for (uint32_t i = 0; i < n->waiting; i++)
		give(n->engine, n->out[i].frame);
	n->waiting = 0;
}

static void transmit(void *port, struct rte_swx_pkt *p)
{
	struct network *n = port;
	struct engine *e = n->engine;
	struct frame *f = p->handle;
	e->under_way--;
	switch (n->id) {
	case PORT_DROP:
		e->dropped++;
		give(e, f);
		return;
	case PORT_AGAIN:
		again(n, p->pkt + p->offset, p->length);
		give(e, f);
		return;
	case PORT_HOST: // the host has its own copy of what came by an interface
		e->host++;
		break;
	}
	if (e->capturing || n->id == PORT_CPU)
		control_frame(e->control, n->id, p->pkt + p->offset, p->length);
	else if (n->fd >= 0 && n->id < MOST_NETWORKS) {
		n->out[n->waiting].frame = f;
		n->out[n->waiting].offset = p->offset;
		n->out[n->waiting].length = p->length;
		if (++n->waiting == BURST)
			flush(n);
		return;
	}
	give(e, f);
}

static void *create(void *args) { return args; }
static void nothing(void *port) { (void)port; }
static void clone_none(void *port, struct rte_swx_pkt *p)
{
	(void)port;
	(void)p;
}
static void clone_part(void *port, struct rte_swx_pkt *p, uint32_t length)
{
	(void)length;
	clone_none(port, p);
}
static void count_in(void *port, struct rte_swx_port_in_stats *s)
{
	struct network *n = port;
	*s = (struct rte_swx_port_in_stats){.n_pkts = n->received};
}
static void count_out(void *port, struct rte_swx_port_out_stats *s)
{
	struct network *n = port;
	*s = (struct rte_swx_port_out_stats){.n_pkts = n->sent, .n_pkts_drop = n->unsent};
}

bool ports_create(struct engine *e, char *error, size_t error_bytes)
{
	static struct rte_swx_port_in_ops in = {.create = create, .free = nothing, .pkt_rx = receive, .stats_read = count_in};
	static struct rte_swx_port_out_ops out = {
		.create = create, .free = nothing, .pkt_tx = transmit, .pkt_fast_clone_tx = clone_none, .pkt_clone_tx = clone_part,
		.flush = flush, .stats_read = count_out,
	};
	int code = rte_swx_pipeline_port_in_type_register(e->pipeline, "frames", &in);
	if (!code)
		code = rte_swx_pipeline_port_out_type_register(e->pipeline, "frames", &out);
	for (int i = 0; i < BUFFERS; i++) {
		struct frame *f = calloc(1, sizeof *f);
		if (!f) {
			snprintf(error, error_bytes, "no memory for frames");
			return false;
		}
		give(e, f);
	}
	for (int i = 0; i < PORTS && !code; i++) {
		struct network *n = &e->networks[i];
		n->engine = e;
		n->id = i;
		n->fd = -1;
		code = rte_swx_pipeline_port_in_config(e->pipeline, i, "frames", n);
		if (!code)
			code = rte_swx_pipeline_port_out_config(e->pipeline, i, "frames", n);
	}
	if (code)
		snprintf(error, error_bytes, "ports: %s", strerror(-code));
	return !code;
}

bool network_open(struct engine *e, const char *interface, char *error, size_t error_bytes)
{
	int on = 1;
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	if (e->n_networks == MOST_NETWORKS) {
		snprintf(error, error_bytes, "%s: there are %d network ports", interface, MOST_NETWORKS);
		return false;
	}
	struct network *n = &e->networks[e->n_networks];
	address.sll_ifindex = if_nametoindex(interface);
	n->fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (!address.sll_ifindex || n->fd < 0 || setsockopt(n->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) ||
	    setsockopt(n->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) ||
	    bind(n->fd, (struct sockaddr *)&address, sizeof address)) {
		snprintf(error, error_bytes, "interface %s: %m", interface);
		if (n->fd >= 0)
			close(n->fd);
		n->fd = -1;
		return false;
	}
	int room = 4 << 20;
	if (setsockopt(n->fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room))
		setsockopt(n->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
	e->n_networks++;
	return true;
}

// ports_put hands in one frame; false: it is too long, or there is no buffer.
bool ports_put(struct engine *e, int port, const uint8_t *data, uint32_t length)
{
	struct frame *f;
	if (length > BUFFER_BYTES - HEADROOM || !(f = take(e)))
		return false;
	memset(f->data, 0, sizeof f->data);
	memcpy(f->data + HEADROOM, data, length);
	enqueue(&e->networks[port], f, length);
	return true;
}

// ports_receive takes what the interfaces have, and returns how much that was.
int ports_receive(struct engine *e)
{
	struct mmsghdr messages[BURST];
	struct iovec parts[BURST];
	struct frame *frames[BURST];
	int total = 0;
	for (int i = 0; i < e->n_networks; i++) {
		struct network *n = &e->networks[i];
		int room = 0;
		memset(messages, 0, sizeof messages);
		for (; room < BURST && (frames[room] = take(e)); room++) {
			parts[room] = (struct iovec){frames[room]->data + HEADROOM, BUFFER_BYTES - HEADROOM};
			messages[room].msg_hdr.msg_iov = &parts[room];
			messages[room].msg_hdr.msg_iovlen = 1;
		}
		int k = room ? recvmmsg(n->fd, messages, room, MSG_DONTWAIT | MSG_TRUNC, NULL) : 0;
		for (int j = 0; j < room; j++) {
			if (j < k && messages[j].msg_len <= BUFFER_BYTES - HEADROOM) {
				enqueue(n, frames[j], messages[j].msg_len);
				n->received++;
				total++;
			} else {
				give(e, frames[j]);
			}
		}
	}
	return total;
}

// ports_run takes all that was handed in through the pipeline, to the end.
void ports_run(struct engine *e)
{
	for (unsigned turns = 0; e->under_way; turns++) {
		rte_swx_pipeline_run(e->pipeline, 1000);
		if (turns == MOST_TURNS) {
			fprintf(stderr, "netcraq-swx: the program does not end\n");
			abort();
		}
	}
	rte_swx_pipeline_flush(e->pipeline);
}
