/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the operations of clients/conformance: one a line of standard input, one result a line as JSON. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../netcraq.h"
#ifdef WITH_OPENSSL
#include "../netcraq_openssl.h"
#endif

/* A line: a word, then words of the form name=value. */
struct line {
	char *word, *names[16], *values[16];
	int count;
};

static void split(struct line *l, char *text)
{
	char *rest = NULL;

	memset(l, 0, sizeof(*l));
	l->word = strtok_r(text, " \n", &rest);
	for (char *each; l->count < 16 && (each = strtok_r(NULL, " \n", &rest)); l->count++) {
		l->names[l->count] = each;
		l->values[l->count] = strchr(each, '=');
		if (l->values[l->count])
			*l->values[l->count]++ = 0;
	}
}

static const char *given(const struct line *l, const char *name)
{
	for (int i = 0; i < l->count; i++)
		if (!strcmp(l->names[i], name))
			return l->values[i];
	return NULL;
}

static unsigned number(const struct line *l, const char *name)
{
	return given(l, name) ? (unsigned)strtoul(given(l, name), NULL, 10) : 0;
}

/* Decodes a value in hexadecimal into memory of exactly its size, so that a read behind it is found. */
static uint8_t *octets(const struct line *l, const char *name, size_t *count)
{
	const char *text = given(l, name) ? given(l, name) : "";
	uint8_t *out;

	*count = strlen(text) / 2;
	out = malloc(*count ? *count : 1);
	for (size_t i = 0; out && i < *count; i++) {
		char digits[3] = {text[2 * i], text[2 * i + 1], 0};

		out[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return out;
}

static void text(const char *s)
{
	putchar('"');
	for (; *s; s++)
		if (*s == '"' || *s == '\\' || (unsigned char)*s < 0x20)
			printf("\\u%04x", (unsigned char)*s);
		else
			putchar(*s);
	putchar('"');
}

static void say(const char *word, const struct nq_result *r)
{
	printf("{\"version\":%" PRIu64 ",\"epoch\":%u,\"attempts\":%u,\"node\":", r->version, r->epoch, r->attempts);
	text(r->node);
	if (!strcmp(word, "add"))
		printf(",\"counter\":%" PRId64, r->counter);
	printf(",\"value_unknown\":%s,\"value\":\"", r->value_unknown ? "true" : "false");
	for (size_t i = 0; strcmp(word, "add") && i < r->value_bytes; i++)
		printf("%02x", r->value[i]);
	printf("\"");
	if (r->error) {
		printf(",\"text\":");
		text(r->text);
		printf(",\"errors\":[\"%s\"", nq_error_name(r->error));
		if (r->cause)
			printf(",\"%s\"", nq_error_name(r->cause));
		if (r->before)
			printf(",\"%s\"", nq_error_name(r->before));
		printf("]");
	}
	printf("}\n");
	fflush(stdout);
}

static struct nq_client *open_cluster(const struct line *l)
{
	struct nq_options o = {.cluster = given(l, "cluster"),
			       .controllers = given(l, "controllers"),
			       .timeout_ms = number(l, "timeout"),
			       .attempt_ms = number(l, "attempt")};
	struct nq_client *c = NULL;
	char error[256] = "no TLS library was compiled in";

#ifdef WITH_OPENSSL
	static struct nq_transport transport;

	nq_openssl_close(&transport);
	if (given(l, "identity") && *given(l, "identity")) {
		o.transport = &transport;
		if (!nq_openssl_open(&transport, given(l, "identity"), error, sizeof(error)))
			o.controllers = "";
	}
#endif
	if (!o.controllers || *o.controllers)
		c = nq_open(&o, error, sizeof(error));
	printf("{");
	if (!c) {
		printf("\"errors\":[\"error\"],\"text\":");
		text(error);
	}
	printf("}\n");
	fflush(stdout);
	return c;
}

static void execute(struct nq_client *c, const struct line *l, struct nq_result *r)
{
	size_t key_bytes, value_bytes;
	uint8_t *key = octets(l, "key", &key_bytes), *value = octets(l, "value", &value_bytes);
	struct nq_read how = {.from = given(l, "from"),
			      .any = given(l, "any"),
			      .bounded = given(l, "bounded"),
			      .bound_ms = number(l, "bounded"),
			      .timeout_ms = number(l, "timeout")};
	struct nq_write write = {.in_epoch = number(l, "epoch"), .timeout_ms = number(l, "timeout")};

	if (!strcmp(l->word, "get"))
		nq_get(c, key, key_bytes, &how, r);
	else if (!strcmp(l->word, "put"))
		nq_put(c, key, key_bytes, value, value_bytes, &write, r);
	else if (!strcmp(l->word, "delete"))
		nq_delete(c, key, key_bytes, &write, r);
	else if (!strcmp(l->word, "cas"))
		nq_cas(c, key, key_bytes, strtoull(given(l, "expected"), NULL, 10), value, value_bytes, &write, r);
	else
		nq_add(c, key, key_bytes, strtoll(given(l, "delta"), NULL, 10), &write, r);
	free(key);
	free(value);
}

int main(void)
{
	struct nq_client *c = NULL;
	struct nq_result *r = malloc(sizeof(*r));
	char *input = NULL;
	size_t room = 0;
	struct line l;

	while (r && getline(&input, &room, stdin) > 0) {
		split(&l, input);
		if (!strcmp(l.word, "open")) {
			nq_close(c);
			c = open_cluster(&l);
		} else {
			execute(c, &l, r);
			say(l.word, r);
		}
	}
	nq_close(c);
	free(input);
	free(r);
	return 0;
}
