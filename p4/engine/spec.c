// SPDX-License-Identifier: Apache-2.0
// Reads a .spec, line by line, and builds the pipeline through the public API.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { MOST_WORDS = 16, MOST_ITEMS = 16384, MOST_FIELDS = 4096, WORD_BYTES = 256 };

struct reader {
	FILE *file;
	int line;
	char text[4096];
	char *words[MOST_WORDS];
	int n;
	char *error;
	size_t error_bytes;
	struct rte_swx_pipeline *p;
	bool applies; // DPDK does not check that a program has instructions
};

static bool fail(struct reader *r, const char *what, int code)
{
	snprintf(r->error, r->error_bytes, "line %d: %s (%s)", r->line, what, code ? strerror(-code) : "not understood");
	return false;
}

// next reads a line that is not empty, cut into words.
static bool next(struct reader *r)
{
	while (fgets(r->text, sizeof r->text, r->file)) {
		r->line++;
		r->n = 0;
		char *save = NULL;
		for (char *w = strtok_r(r->text, " \t\r\n", &save); w && r->n < MOST_WORDS; w = strtok_r(NULL, " \t\r\n", &save)) {
			if (w[0] == ';' || (w[0] == '/' && w[1] == '/'))
				break;
			r->words[r->n++] = w;
		}
		if (r->n)
			return true;
	}
	r->n = 0;
	return false;
}

static bool is(struct reader *r, int i, const char *word) { return i < r->n && !strcmp(r->words[i], word); }

// A list of strings that the API keeps no pointer to once its call has returned.
struct list {
	const char **items;
	uint32_t n;
};

static bool add(struct list *l, const char *item)
{
	if (l->n == MOST_ITEMS)
		return false;
	if (!l->items && !(l->items = calloc(MOST_ITEMS, sizeof *l->items)))
		return false;
	return (l->items[l->n++] = strdup(item)) != NULL;
}

static void drop(struct list *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		free((void *)l->items[i]);
	free(l->items);
	*l = (struct list){0};
}

static bool read_struct(struct reader *r)
{
	char name[WORD_BYTES];
	static struct rte_swx_field_params fields[MOST_FIELDS];
	struct list names = {0};
	uint32_t n = 0;
	const unsigned longest = 8 * (PLATFORM_BYTES + BUFFER_BYTES - HEADROOM); // bits of a frame
	int variable = 0;
	snprintf(name, sizeof name, "%s", r->words[1]);
	while (next(r) && !is(r, 0, "}")) {
		unsigned bits;
		if (sscanf(r->words[0], "varbit<%u>", &bits) == 1) {
			// SWX checks no length when it extracts such a header, so there is memory for any.
			variable = 1;
			bits = bits < longest ? longest : bits;
		} else if (sscanf(r->words[0], "bit<%u>", &bits) != 1 || variable)
			return fail(r, "a field", 0);
		if (r->n != 2 || n == MOST_FIELDS || !add(&names, r->words[1]))
			return fail(r, "a field", 0);
		fields[n] = (struct rte_swx_field_params){.name = names.items[n], .n_bits = bits};
		n++;
	}
	if (!n) // p4c writes structs without fields, which nothing uses
		return true;
	for (uint32_t i = 0, bytes = 0; i < n; bytes += fields[i++].n_bits / 8)
		if (bytes > UINT8_MAX) // DPDK keeps it in 8 bits, and does not check
			return fail(r, "a field behind the first 256 bytes of its struct", -ERANGE);
	int code = rte_swx_pipeline_struct_type_register(r->p, name, fields, n, variable);
	drop(&names);
	return !code || fail(r, name, code);
}

static bool read_instructions(struct reader *r, struct list *l)
{
	while (next(r) && !is(r, 0, "}")) {
		char text[2048] = "";
		for (int i = 0; i < r->n; i++) {
			strncat(text, i ? " " : "", sizeof text - strlen(text) - 1);
			strncat(text, r->words[i], sizeof text - strlen(text) - 1);
		}
		if (!add(l, text))
			return fail(r, "too many instructions", 0);
	}
	return true;
}

static bool read_action(struct reader *r)
{
	char name[WORD_BYTES], args[WORD_BYTES] = "";
	struct list l = {0};
	if (r->n < 4 || !is(r, 2, "args"))
		return fail(r, "an action", 0);
	snprintf(name, sizeof name, "%s", r->words[1]);
	if (is(r, 3, "instanceof") && r->n > 4)
		snprintf(args, sizeof args, "%s", r->words[4]);
	if (!read_instructions(r, &l))
		return false;
	int code = rte_swx_pipeline_action_config(r->p, name, args[0] ? args : NULL, l.items, l.n);
	drop(&l);
	return !code || fail(r, name, code);
}

static bool read_key(struct reader *r, struct rte_swx_match_field_params *fields, uint32_t *n, struct list *names)
{
	while (next(r) && !is(r, 0, "}")) {
		enum rte_swx_table_match_type type = RTE_SWX_TABLE_MATCH_EXACT;
		if (r->n != 2 || *n == 16 || !add(names, r->words[0]))
			return fail(r, "a key", 0);
		if (is(r, 1, "lpm"))
			type = RTE_SWX_TABLE_MATCH_LPM;
		else if (is(r, 1, "wildcard"))
			type = RTE_SWX_TABLE_MATCH_WILDCARD;
		else if (!is(r, 1, "exact"))
			return fail(r, r->words[1], 0);
		fields[*n] = (struct rte_swx_match_field_params){.name = names->items[*n], .match_type = type};
		(*n)++;
	}
	return true;
}

static bool read_table(struct reader *r)
{
	struct rte_swx_match_field_params fields[16];
	struct rte_swx_pipeline_table_params t = {.fields = fields};
	struct list names = {0}, actions = {0};
	int entries[64], defaults[64];
	char name[WORD_BYTES], first[WORD_BYTES] = "";
	uint32_t size = 0;
	snprintf(name, sizeof name, "%s", r->words[1]);
	while (next(r) && !is(r, 0, "}")) {
		if (is(r, 0, "key")) {
			if (!read_key(r, fields, &t.n_fields, &names))
				return false;
		} else if (is(r, 0, "actions")) {
			while (next(r) && !is(r, 0, "}")) {
				if (actions.n == 64 || !add(&actions, r->words[0]))
					return fail(r, "an action", 0);
				entries[actions.n - 1] = !is(r, 1, "@defaultonly");
				defaults[actions.n - 1] = !is(r, 1, "@tableonly");
			}
		} else if (is(r, 0, "default_action")) {
			if (r->n < 4 || !is(r, 3, "none"))
				return fail(r, "a default action with arguments", 0);
			snprintf(first, sizeof first, "%s", r->words[1]);
			t.default_action_is_const = is(r, 4, "const");
		} else if (is(r, 0, "size") && r->n == 2) {
			size = strtoul(r->words[1], NULL, 0);
		} else {
			return fail(r, r->words[0], 0);
		}
	}
	t.action_names = actions.items;
	t.n_actions = actions.n;
	t.action_is_for_table_entries = entries;
	t.action_is_for_default_entry = defaults;
	t.default_action_name = first;
	int code = rte_swx_pipeline_table_config(r->p, name, &t, NULL, NULL, size);
	drop(&names);
	drop(&actions);
	return !code || fail(r, name, code);
}

static bool read_block(struct reader *r)
{
	int code = 0;
	if (is(r, 0, "struct") && r->n == 3)
		return read_struct(r);
	if (is(r, 0, "action"))
		return read_action(r);
	if (is(r, 0, "table") && r->n == 3)
		return read_table(r);
	if (is(r, 0, "header") && r->n == 4)
		code = rte_swx_pipeline_packet_header_register(r->p, r->words[1], r->words[3]);
	else if (is(r, 0, "metadata") && r->n == 3)
		code = rte_swx_pipeline_packet_metadata_register(r->p, r->words[2]);
	else if (is(r, 0, "regarray") && r->n == 6)
		code = rte_swx_pipeline_regarray_config(r->p, r->words[1], strtoul(r->words[3], NULL, 0),
							strtoull(r->words[5], NULL, 0));
	else if (is(r, 0, "apply")) {
		struct list l = {0};
		if (!read_instructions(r, &l))
			return false;
		code = rte_swx_pipeline_instructions_config(r->p, l.items, l.n);
		drop(&l);
		r->applies = true;
		return !code || fail(r, "the program", code);
	} else {
		return fail(r, r->words[0], 0);
	}
	return !code || fail(r, r->words[1], code);
}

bool spec_load(struct rte_swx_pipeline *p, const char *path, char *error, size_t error_bytes)
{
	struct reader r = {.file = fopen(path, "r"), .error = error, .error_bytes = error_bytes, .p = p};
	if (!r.file) {
		snprintf(error, error_bytes, "cannot be read: %m");
		return false;
	}
	bool ok = true;
	while (ok && next(&r))
		ok = read_block(&r);
	fclose(r.file);
	if (ok && !r.applies)
		ok = fail(&r, "the program ends without an apply block", 0);
	if (!ok)
		return false;
	int code = rte_swx_pipeline_build(p);
	if (code)
		snprintf(error, error_bytes, "the pipeline cannot be built: %s", strerror(-code));
	return !code;
}
