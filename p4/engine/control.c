// SPDX-License-Identifier: Apache-2.0
// What the control plane asks, a line each on a stream socket; answers are lines that end with "ok" or "error WHY".
//
//   add TABLE ENTRY, del TABLE ENTRY   an entry as rte_swx_ctl_pipeline_table_entry_read has it
//   default TABLE ENTRY                the action of keys without an entry; takes effect with the entries
//   commit                             entries since the last commit take effect, or none of them
//   read ARRAY FIRST COUNT             values, in hexadecimal
//   scan ARRAY FIRST COUNT             those that are not zero: INDEX=VALUE
//   write ARRAY FIRST VALUE...
//   put PORT FRAME                     one frame, in hexadecimal, as if it had come in by the port
//   try PORT FRAME                     the same; answers with what leaves: "out PORT FRAME"
//   open INTERFACE                     the next network port
//   hold, release                      no frames are taken between the two, which may be nested. After a change that
//                                      fails, add, del, default, commit and write fail until the next of the two
//   clock NANOSECONDS                  the time from now on; 0: the machine's
//   stats
//
// Frames for the CPU port come as lines "cpu PORT FRAME" at any time between answers.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"

struct control {
	struct engine *engine;
	int fd;
	char *in, *out;
	size_t in_length, in_room, out_length, out_room;
	bool gone;
	bool spoilt; // a change failed since the last hold or release
	char why[256]; // of a request that failed
};

static void drain(struct control *c)
{
	for (size_t done = 0; done < c->out_length && !c->gone;) {
		ssize_t n = send(c->fd, c->out + done, c->out_length - done, MSG_NOSIGNAL);
		if (n > 0) {
			done += n;
		} else if (errno == EAGAIN) {
			struct pollfd p = {c->fd, POLLOUT, 0};
			poll(&p, 1, -1);
		} else if (errno != EINTR) {
			c->gone = true;
		}
	}
	c->out_length = 0;
}

static void reserve(struct control *c, size_t more)
{
	if (c->out_length + more <= c->out_room)
		return;
	c->out_room = 2 * (c->out_length + more);
	if (!(c->out = realloc(c->out, c->out_room)))
		abort();
}

__attribute__((format(printf, 2, 3))) static void say(struct control *c, const char *format, ...)
{
	va_list a;
	reserve(c, 1024);
	va_start(a, format);
	int n = vsnprintf(c->out + c->out_length, 1024, format, a);
	va_end(a);
	c->out_length += n < 1024 ? n : 1023;
}

void control_frame(struct control *c, int port, const uint8_t *data, uint32_t length)
{
	static const char digits[] = "0123456789abcdef";
	reserve(c, 2 * (size_t)length + 64);
	say(c, "%s %d ", c->engine->capturing ? "out" : "cpu", port);
	for (uint32_t i = 0; i < length; i++) {
		c->out[c->out_length++] = digits[data[i] >> 4];
		c->out[c->out_length++] = digits[data[i] & 15];
	}
	c->out[c->out_length++] = '\n';
}

static int unhex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

static const char *put(struct engine *e, int port, const char *hex)
{
	uint8_t data[BUFFER_BYTES];
	uint32_t n = 0;
	if (port < 0 || port >= PORTS)
		return "no such port";
	for (; hex[0] && hex[1]; hex += 2) {
		int high = unhex(hex[0]), low = unhex(hex[1]);
		if (high < 0 || low < 0 || n == sizeof data)
			return "a frame is wanted, in hexadecimal";
		data[n++] = high << 4 | low;
	}
	if (!ports_put(e, port, data, n))
		return "no room for the frame";
	return NULL;
}

static int change_table(struct rte_swx_ctl_pipeline *ctl, const char *word, const char *table,
			struct rte_swx_table_entry *t)
{
	if (!strcmp(word, "default"))
		return rte_swx_ctl_pipeline_table_default_entry_add(ctl, table, t);
	if (!strcmp(word, "add"))
		return rte_swx_ctl_pipeline_table_entry_add(ctl, table, t);
	return rte_swx_ctl_pipeline_table_entry_delete(ctl, table, t);
}

static const char *entry(struct control *c, const char *word, char *rest)
{
	char *table = strsep(&rest, " ");
	int blank = 0;
	if (!rest)
		return "a table and an entry are wanted";
	struct rte_swx_table_entry *t = rte_swx_ctl_pipeline_table_entry_read(c->engine->ctl, table, rest, &blank);
	if (!t)
		return "the table has no such entries";
	int code = change_table(c->engine->ctl, word, table, t);
	free(t->key);
	free(t->key_mask);
	free(t->action_data);
	free(t);
	return code ? strerror(-code) : NULL;
}

static const char *registers(struct control *c, bool all, char *rest)
{
	char array[128];
	uint32_t first, count;
	uint64_t value;
	if (sscanf(rest ? rest : "", "%127s %u %u", array, &first, &count) != 3)
		return "an array, an index and a count are wanted";
	for (uint32_t i = first; i - first < count; i++) {
		int code = rte_swx_ctl_pipeline_regarray_read(c->engine->pipeline, array, i, &value);
		if (code)
			return "no such register";
		if (all)
			say(c, "%lx ", value);
		else if (value)
			say(c, "%x=%lx ", i, value);
	}
	say(c, "\n");
	return NULL;
}

static const char *change(struct control *c, char *rest)
{
	char *array = strsep(&rest, " "), *number = strsep(&rest, " "), *end;
	if (!rest)
		return "an array, an index and values are wanted";
	uint32_t i = strtoul(number, NULL, 10);
	for (char *word; (word = strsep(&rest, " ")); i++) {
		uint64_t value = strtoull(word, &end, 16);
		if (end == word || *end || rte_swx_ctl_pipeline_regarray_write(c->engine->pipeline, array, i, value))
			return "no such register";
	}
	return NULL;
}

static const char *frame(struct control *c, bool tries, char *rest)
{
	struct engine *e = c->engine;
	char *number = strsep(&rest, " ");
	if (!rest)
		rest = "";
	e->capturing = tries;
	const char *error = put(e, number ? atoi(number) : -1, rest);
	if (!error)
		ports_run(e);
	e->capturing = false;
	return error;
}

static const char *commit(struct control *c)
{
	int code = rte_swx_ctl_pipeline_commit(c->engine->ctl, 1);
	if (code == -ENOSPC)
		return "a table is full, and none of the changes was made";
	return code ? strerror(-code) : NULL;
}

// changes makes one change, unless an earlier one of the group failed. Entries of a group that fails are forgotten.
static const char *changes(struct control *c, const char *word, char *rest)
{
	const char *error = "an earlier change of the group failed";
	if (c->spoilt)
		return error;
	if (!strcmp(word, "commit"))
		error = commit(c);
	else if (!strcmp(word, "write"))
		error = change(c, rest);
	else
		error = entry(c, word, rest);
	c->spoilt = error != NULL;
	if (error)
		rte_swx_ctl_pipeline_abort(c->engine->ctl);
	return error;
}

static bool is_change(const char *word)
{
	static const char *const words[] = {"add", "del", "default", "commit", "write"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcmp(word, words[i]))
			return true;
	return false;
}

static const char *obey(struct control *c, char *line)
{
	struct engine *e = c->engine;
	char *rest = line, *word = strsep(&rest, " ");
	if (is_change(word))
		return changes(c, word, rest);
	if (!strcmp(word, "open") && rest)
		return network_open(e, rest, c->why, sizeof c->why) ? NULL : c->why;
	if (!strcmp(word, "read") || !strcmp(word, "scan"))
		return registers(c, *word == 'r', rest);
	if (!strcmp(word, "put") || !strcmp(word, "try"))
		return frame(c, *word == 't', rest);
	if (!strcmp(word, "hold") || !strcmp(word, "release")) {
		e->held = *word == 'h' ? e->held + 1 : e->held - (e->held > 0);
		c->spoilt = false;
	} else if (!strcmp(word, "clock") && rest)
		e->clock = strtoull(rest, NULL, 10);
	else if (!strcmp(word, "stats"))
		for (int i = 0; i < e->n_networks; i++)
			say(c, "%d %lu %lu %lu\n", i, e->networks[i].received, e->networks[i].sent, e->networks[i].unsent);
	else
		return "no such command";
	return NULL;
}

// control_serve does what has been asked so far.
bool control_serve(struct control *c)
{
	for (;;) {
		if (c->in_room - c->in_length < 65536) {
			c->in_room += 1 << 20;
			if (!(c->in = realloc(c->in, c->in_room)))
				abort();
		}
		ssize_t n = recv(c->fd, c->in + c->in_length, c->in_room - c->in_length - 1, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return false;
		if (n < 0)
			break;
		c->in_length += n;
		char *line = c->in, *end;
		while ((end = memchr(line, '\n', c->in + c->in_length - line))) {
			*end = 0;
			const char *error = obey(c, line);
			if (error)
				say(c, "error %s\n", error);
			else
				say(c, "ok\n");
			line = end + 1;
		}
		c->in_length -= line - c->in;
		memmove(c->in, line, c->in_length);
	}
	drain(c);
	return !c->gone;
}

struct control *control_open(struct engine *e, int fd)
{
	struct control *c = calloc(1, sizeof *c);
	if (c) {
		c->engine = e;
		c->fd = fd;
	}
	return c;
}
