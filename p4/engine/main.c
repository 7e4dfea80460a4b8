// SPDX-License-Identifier: Apache-2.0
// netcraq-swx SPEC MEGABYTES [INTERFACE...]: the engine. Its control plane is at descriptor 3, and it ends with it.
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_log.h>

#include "engine.h"

enum { CONTROL = 3, IDLE_TURNS = 200, CONTROL_TURNS = 16 };

static int explain(const char *what, const char *why)
{
	fprintf(stderr, "netcraq-swx: %s: %s\n", what, why);
	return 1;
}

// start makes DPDK run in plain memory, with no device of its own.
static bool start(const char *megabytes)
{
	char *arguments[] = {
		"netcraq-swx", "--no-huge", "-m", (char *)megabytes, "--no-pci", "--no-telemetry", "--no-shconf",
		"-l", "0", "--log-level=lib.eal:error", NULL,
	};
	char cpu[16];
	// EAL pins its thread to a core; the process keeps the set it was started with.
	cpu_set_t set;
	sched_getaffinity(0, sizeof set, &set);
	int first = 0;
	while (first < CPU_SETSIZE - 1 && !CPU_ISSET(first, &set))
		first++;
	snprintf(cpu, sizeof cpu, "%d", first);
	arguments[8] = cpu;
	int code = rte_eal_init(sizeof arguments / sizeof *arguments - 1, arguments);
	sched_setaffinity(0, sizeof set, &set);
	return code >= 0;
}

static void idle(struct engine *e)
{
	struct pollfd fds[PORTS + 1] = {{CONTROL, POLLIN, 0}};
	int n = 1;
	for (int i = 0; i < e->n_networks && !e->held; i++)
		fds[n++] = (struct pollfd){e->networks[i].fd, POLLIN, 0};
	poll(fds, n, -1);
}

static void serve(struct engine *e)
{
	int quiet = 0;
	for (unsigned turn = 0;; turn++) {
		int received = e->held ? 0 : ports_receive(e);
		if (received) {
			ports_run(e);
			quiet = 0;
		} else if (e->held || ++quiet > IDLE_TURNS) {
			idle(e);
			quiet = 0;
		}
		if ((!received || turn % CONTROL_TURNS == 0) && !control_serve(e->control))
			return;
	}
}

int main(int argc, char **argv)
{
	static struct engine e;
	char error[512];
	if (argc < 3)
		return explain("usage", "netcraq-swx SPEC MEGABYTES [INTERFACE...]");
	signal(SIGPIPE, SIG_IGN);
	if (!start(argv[2]))
		return explain("DPDK", "cannot start in so much memory");
	if (rte_swx_pipeline_config(&e.pipeline, "netcraq", 0) || !e.pipeline)
		return explain("DPDK", "no pipeline");
	if (!ports_create(&e, error, sizeof error))
		return explain("pipeline", error);
	if (!spec_load(e.pipeline, argv[1], error, sizeof error))
		return explain(argv[1], error);
	for (int i = 3; i < argc; i++)
		if (!network_open(&e, argv[i], error, sizeof error))
			return explain("network", error);
	e.ctl = rte_swx_ctl_pipeline_create(e.pipeline);
	e.control = control_open(&e, CONTROL);
	if (!e.ctl || !e.control)
		return explain("control", "no memory");
	char ready[32];
	int n = snprintf(ready, sizeof ready, "ready %d\n", ENGINE_VERSION);
	if (write(CONTROL, ready, n) != n)
		return explain("control", "descriptor 3 is a stream socket to the control plane");
	serve(&e);
	return 0;
}
