// SPDX-License-Identifier: Apache-2.0
// A software switch that runs what p4c's DPDK backend makes of a PSA program, on DPDK's SWX pipeline.
//
// One thread does everything in turn: frames, and what its control plane asks. So what the control plane reads and writes
// stands between two packets, never inside of one.
#ifndef NQ_ENGINE_H
#define NQ_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_swx_ctl.h>
#include <rte_swx_pipeline.h>

enum {
	// Of the ports, of platform_h and of the requests: a control plane refuses an engine of another version.
	// EngineVersion in internal/node/dataplane/p4/swx.go is the same number.
	ENGINE_VERSION = 3,
	PORTS = 16,
	PORT_AGAIN = 12, // p4/target.p4
	PORT_CPU = 13,
	PORT_HOST = 14,
	PORT_DROP = 15, // instead of the instruction drop, which gives frames to a port of DPDK's
	MOST_NETWORKS = PORT_AGAIN,
	HEADROOM = 512,      // for headers that a packet grows by
	PLATFORM_BYTES = 16, // platform_h in p4/network.p4
	PLATFORM_PORT = 11,  // offsets of its fields
	PLATFORM_COPIES = 12,
	PLATFORM_COPY = 13,
	PLATFORM_NOTE = 14,
	BUFFER_BYTES = 4096,
	BUFFERS = 1024,
	BURST = 32,
	MOST_TURNS = 100000, // of 1,000 instructions each, for what is under way
};

// A frame on its way through the pipeline.
struct frame {
	struct frame *next;
	uint32_t length; // while it is queued
	uint8_t data[BUFFER_BYTES];
};

struct engine;

struct network {
	struct engine *engine;
	int id;
	int fd; // a packet socket, -1: frames come and go through the control socket only
	struct frame *first, *last;
	uint32_t lengths; // of the queue
	struct {
		struct frame *frame;
		uint32_t offset, length;
	} out[BURST];
	uint32_t waiting;
	uint64_t received, sent, unsent;
};

struct engine {
	struct rte_swx_pipeline *pipeline;
	struct rte_swx_ctl_pipeline *ctl;
	struct network networks[PORTS];
	int n_networks;
	struct frame *free;
	uint64_t under_way;  // frames inside the pipeline
	uint64_t host, dropped, lost;
	uint64_t clock; // 0: the machine's
	unsigned held;  // no frames until the control plane lets go so many times
	struct control *control;
	bool capturing; // frames that leave go to the control plane
};

// spec.c: loads a program into a pipeline that has its ports. Returns false and explains in error.
bool spec_load(struct rte_swx_pipeline *p, const char *path, char *error, size_t error_bytes);

// ports.c
bool ports_create(struct engine *e, char *error, size_t error_bytes);
bool network_open(struct engine *e, const char *interface, char *error, size_t error_bytes);
bool ports_put(struct engine *e, int port, const uint8_t *data, uint32_t length);
int ports_receive(struct engine *e);
void ports_run(struct engine *e);
uint64_t clock_now(const struct engine *e);

// control.c
struct control *control_open(struct engine *e, int fd);
bool control_serve(struct control *c); // false: the other side is gone
void control_frame(struct control *c, int port, const uint8_t *data, uint32_t length);

#endif
