/* SPDX-License-Identifier: Apache-2.0 */
/* The client of netcraq.h. client/call.go and client/judge.go explain the rules that it keeps. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "netcraq.h"
#include "netcraq_wire.h"

#define NAME_BYTES 64
#define ADDR_BYTES 80
#define MAX_NODES 4096
#define MAX_MAP_BYTES (64u << 20)
#define KEPT 8	    /* attempts whose answers are taken; to ignore an older one is as if it was lost */
#define LEAST 0.001 /* the least time in seconds that an attempt gets */
#define WINDOW 0x7fffffffu
#define CONNECT_WITHIN 0.5
#define RETRY_AFTER 0.02
#define RETRY_AT_LEAST 1.0
#define NEWS_WITHIN 0.2 /* in doubt, a source without news for so long is left for another */
#define KEY_GENERATIONS 4

enum { TAGS_OFF, TAGS_ACCEPTED, TAGS_SENT, TAGS_REQUIRED };

struct bytes {
	uint8_t *at;
	size_t count, room;
};

struct estimate {
	double mean, deviation; /* as TCP measures it (RFC 6298); a mean of 0: never measured */
};

/* A node as the client sees it. It lasts from map to map. */
struct node {
	char name[NAME_BYTES], api[ADDR_BYTES];
	struct sockaddr_in addr;
	struct estimate reads, writes;
	double near; /* how fast it answers reads itself; 0: never measured */
};

struct chain {
	uint32_t epoch;
	int count, learner; /* place of the member that answers no reads yet; -1: none */
	uint16_t members[NQ_MAX_CHAIN];
	bool lost;
};

struct map {
	uint64_t version;
	char cluster[NAME_BYTES];
	uint32_t shards, chain_count, node_count;
	struct chain *chains;
	uint32_t *by_shard;
	uint16_t nodes[MAX_NODES];
	struct bytes controllers; /* texts, each with a zero behind it */
	int tags;
};

struct keys {
	uint32_t sign;
	int count;
	struct {
		uint32_t generation;
		bool has_read, has_write;
		uint8_t read[16], write[16];
	} of[KEY_GENERATIONS];
};

/* A call of gRPC with one small request and a stream of answers, on a connection of its own. */
struct stream {
	int fd; /* -1: none */
	void *secure;
	bool ready;
	double since, retry_at;
	int failures;
	uint32_t consumed;
	struct bytes in, body;
	char addr[ADDR_BYTES], failure[128];
};

struct session {
	uint64_t id, seq;
};

struct nq_client {
	struct nq_options options;
	char read_from[NAME_BYTES + 8];
	double attempt, timeout;
	int udp;
	uint64_t next_id;
	struct node *nodes;
	uint32_t node_count, node_room;
	struct map *map;
	uint64_t generation;	  /* of the map */
	struct session *sessions; /* one for each shard; id 0: none */
	double apart;
	pid_t pid;
	bool follows, doubt;
	double heard;
	struct bytes sources;
	struct stream map_stream, key_stream;
	bool has_keys;
	struct keys keys;
	char unreadable[256]; /* why the cluster file is */
};

/* Helpers. */

static double clock_of(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double now_is(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

static uint64_t random_id(void)
{
	uint64_t id = 0;

	while (!id)
		if (getrandom(&id, sizeof(id), 0) != sizeof(id))
			id = 0;
	return id;
}

static double min_of(double a, double b)
{
	return a < b ? a : b;
}

static double max_of(double a, double b)
{
	return a > b ? a : b;
}

static uint64_t get(const uint8_t *at, int count)
{
	uint64_t v = 0;

	while (count--)
		v = v << 8 | *at++;
	return v;
}

static void set(uint8_t *at, int count, uint64_t v)
{
	while (count--) {
		at[count] = (uint8_t)v;
		v >>= 8;
	}
}

static bool append(struct bytes *b, const void *from, size_t count)
{
	if (b->count + count > b->room) {
		size_t room = (b->count + count) * 2 + 64;
		uint8_t *at = realloc(b->at, room);

		if (!at)
			return false;
		b->at = at;
		b->room = room;
	}
	if (count)
		memcpy(b->at + b->count, from, count);
	b->count += count;
	return true;
}

static void drop_front(struct bytes *b, size_t count)
{
	b->count -= count;
	if (b->count)
		memmove(b->at, b->at + count, b->count);
}

static bool copy_text(char *to, size_t room, const void *from, size_t count)
{
	if (count >= room || memchr(from, 0, count))
		return false;
	memcpy(to, from, count);
	to[count] = 0;
	return true;
}

/* Hashes. */

static uint32_t rotate32(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

static const uint32_t sha256_k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static void sha256_block(uint32_t h[8], const uint8_t *block)
{
	uint32_t w[64], s[8];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)get(block + 4 * i, 4);
	for (int i = 16; i < 64; i++)
		w[i] = w[i - 16] + w[i - 7] + (rotate32(w[i - 15], 7) ^ rotate32(w[i - 15], 18) ^ w[i - 15] >> 3) +
		       (rotate32(w[i - 2], 17) ^ rotate32(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(s, h, sizeof(s));
	for (int i = 0; i < 64; i++) {
		uint32_t a = s[7] + (rotate32(s[4], 6) ^ rotate32(s[4], 11) ^ rotate32(s[4], 25)) +
			     ((s[4] & s[5]) ^ (~s[4] & s[6])) + sha256_k[i] + w[i];
		uint32_t b = (rotate32(s[0], 2) ^ rotate32(s[0], 13) ^ rotate32(s[0], 22)) +
			     ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

		memmove(s + 1, s, 7 * sizeof(*s));
		s[4] += a;
		s[0] = a + b;
	}
	for (int i = 0; i < 8; i++)
		h[i] += s[i];
}

/* The first 128 bits of the SHA-256 of a key. */
static void hash_key(const uint8_t *key, size_t count, uint64_t out[2])
{
	uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
	uint8_t padded[NQ_KEY_MAX + 128] = {0};
	size_t whole = (count + 9 + 63) / 64 * 64;

	memcpy(padded, key, count);
	padded[count] = 0x80;
	set(padded + whole - 8, 8, count * 8);
	for (size_t at = 0; at < whole; at += 64)
		sha256_block(h, padded + at);
	out[0] = (uint64_t)h[0] << 32 | h[1];
	out[1] = (uint64_t)h[2] << 32 | h[3];
}

static uint64_t rotate64(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static uint64_t little(const uint8_t *at, size_t count)
{
	uint64_t v = 0;

	while (count--)
		v = v << 8 | at[count];
	return v;
}

static void sip_rounds(uint64_t v[4], int count)
{
	while (count--) {
		v[0] += v[1];
		v[1] = rotate64(v[1], 13) ^ v[0];
		v[0] = rotate64(v[0], 32);
		v[2] += v[3];
		v[3] = rotate64(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotate64(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotate64(v[1], 17) ^ v[2];
		v[2] = rotate64(v[2], 32);
	}
}

/* SipHash-2-4. */
static uint64_t siphash(const uint8_t secret[16], const uint8_t *data, size_t count)
{
	uint64_t k0 = little(secret, 8), k1 = little(secret + 8, 8), word;
	uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
			 k1 ^ 0x7465646279746573};

	for (size_t at = 0; at <= count / 8 * 8; at += 8) {
		word = at + 8 <= count ? little(data + at, 8) : little(data + at, count - at) | (uint64_t)count << 56;
		v[3] ^= word;
		sip_rounds(v, 2);
		v[0] ^= word;
	}
	v[2] ^= 0xff;
	sip_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Messages, and their tags (T1 to T7 of spec/protocol.md). */

static uint16_t fold(const uint8_t *at, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i + 1 < count; i += 2)
		sum += get(at + i, 2);
	if (count % 2)
		sum += (uint64_t)at[count - 1] << 8;
	while (sum > 0xffff)
		sum = (sum >> 16) + (sum & 0xffff);
	return (uint16_t)sum;
}

struct reply {
	uint8_t flags;
	uint16_t shard, status;
	uint32_t epoch;
	uint64_t request, key[2], version;
	const uint8_t *value;
	size_t value_bytes;
};

static bool decode_reply(const uint8_t *m, size_t count, struct reply *r)
{
	if (count < NQ_VERSION_BYTES || count > NQ_VERSION_BYTES + NQ_MAX_VALUE_BYTES ||
	    get(m + NQ_BASE_MAGIC_AT, 2) != NQ_MAGIC || m[NQ_BASE_VERSION_AT] != NQ_WIRE_VERSION ||
	    m[NQ_BASE_OP_AT] != NQ_OP_REPLY || fold(m, count) != 0xffff)
		return false;
	r->flags = m[NQ_BASE_FLAGS_AT];
	r->shard = (uint16_t)get(m + NQ_BASE_SHARD_AT, 2);
	r->status = (uint16_t)get(m + NQ_BASE_DETAIL_AT, 2);
	r->epoch = (uint32_t)get(m + NQ_BASE_EPOCH_AT, 4);
	r->request = get(m + NQ_BASE_REQUEST_AT, 8);
	r->key[0] = get(m + NQ_BASE_KEY_HI_AT, 8);
	r->key[1] = get(m + NQ_BASE_KEY_LO_AT, 8);
	r->version = get(m + NQ_VERSION_VERSION_AT, 8);
	r->value = m + NQ_VERSION_BYTES;
	r->value_bytes = count - NQ_VERSION_BYTES;
	return true;
}

/* Returns the secret of a generation for messages with an op, or NULL. */
static const uint8_t *secret_of(const struct keys *k, uint32_t generation, int op)
{
	for (int i = 0; i < k->count; i++) {
		if (k->of[i].generation != generation)
			continue;
		if (op == NQ_OP_READ || op == NQ_OP_REPLY)
			return k->of[i].has_read ? k->of[i].read : NULL;
		return k->of[i].has_write ? k->of[i].write : NULL;
	}
	return NULL;
}

/* Computes the tag of a message between a node and a client: end is the node's place among the ends, 0 or 1 (T5). */
static uint64_t tag_of(const uint8_t *secret, const struct sockaddr_in *node, int end, const uint8_t *m, size_t count)
{
	uint8_t covered[16 + NQ_MAX_MESSAGE_BYTES] = {0};

	memcpy(covered + 8 * end, &node->sin_addr, 4);
	memcpy(covered + 8 * end + 4, &node->sin_port, 2);
	memcpy(covered + 16, m, count);
	return siphash(secret, covered, 16 + count);
}

/* Puts a trailer behind a request, and returns its length with it. */
static size_t add_tag(const struct keys *k, const struct sockaddr_in *to, uint8_t *m, size_t count)
{
	uint64_t tag = tag_of(secret_of(k, k->sign, m[NQ_BASE_OP_AT]), to, 1, m, count);

	m[NQ_BASE_VERSION_AT] |= NQ_TAGGED_MARK;
	set(m + count + NQ_TRAILER_TAG_AT, 8, tag);
	set(m + count + NQ_TRAILER_GENERATION_AT, 4, k->sign);
	set(m + count + NQ_TRAILER_VERSION_AT, 2, NQ_TRAILER_VERSION);
	set(m + count + NQ_TRAILER_RESERVED_AT, 2, 0);
	return count + NQ_TRAILER_BYTES;
}

/* Takes the trailer off an answer, and reports whether the client may believe it in this phase of tags (T6). */
static bool open_answer(int phase, const struct keys *k, const struct sockaddr_in *from, uint8_t *m, size_t *count)
{
	const uint8_t *trailer, *secret;

	if (*count <= NQ_BASE_VERSION_AT || m[NQ_BASE_VERSION_AT] != (NQ_WIRE_VERSION | NQ_TAGGED_MARK))
		return phase != TAGS_REQUIRED;
	if (*count < NQ_BASE_BYTES + NQ_TRAILER_BYTES || *count > NQ_MAX_MESSAGE_BYTES + NQ_TRAILER_BYTES)
		return false;
	m[NQ_BASE_VERSION_AT] = NQ_WIRE_VERSION;
	*count -= NQ_TRAILER_BYTES;
	if (phase == TAGS_OFF || (!k && phase != TAGS_REQUIRED))
		return true;
	trailer = m + *count;
	secret = k ? secret_of(k, (uint32_t)get(trailer + NQ_TRAILER_GENERATION_AT, 4), m[NQ_BASE_OP_AT]) : NULL;
	return secret && get(trailer + NQ_TRAILER_VERSION_AT, 2) == NQ_TRAILER_VERSION &&
	       get(trailer + NQ_TRAILER_RESERVED_AT, 2) == 0 &&
	       get(trailer + NQ_TRAILER_TAG_AT, 8) == tag_of(secret, from, 0, m, *count);
}

/* Maps: from a cluster file, a controller or a node. */

static void free_map(struct map *m)
{
	if (!m)
		return;
	free(m->chains);
	free(m->by_shard);
	free(m->controllers.at);
	free(m);
}

static struct map *new_map(void)
{
	struct map *m = calloc(1, sizeof(*m));

	return m;
}

static bool parse_addr(const char *text, struct sockaddr_in *addr)
{
	const char *colon = strrchr(text, ':');
	char host[NAME_BYTES], *end;
	unsigned long port;

	if (!colon || !copy_text(host, sizeof(host), text, (size_t)(colon - text)) || colon[1] < '0' || colon[1] > '9')
		return false;
	port = strtoul(colon + 1, &end, 10);
	memset(addr, 0, sizeof(*addr));
	addr->sin_family = AF_INET;
	addr->sin_port = htons((uint16_t)port);
	return !*end && port > 0 && port < 65536 && inet_pton(AF_INET, host, &addr->sin_addr) == 1;
}

/* Finds a node of the client by name and address, or adds it; -1: it cannot be. */
static int node_of(struct nq_client *c, const char *name, const char *addr_text, const char *api)
{
	struct sockaddr_in addr;
	struct node *n;

	if (!*name || !parse_addr(addr_text, &addr))
		return -1;
	for (uint32_t i = 0; i < c->node_count; i++) {
		n = &c->nodes[i];
		if (!strcmp(n->name, name) && n->addr.sin_port == addr.sin_port &&
		    n->addr.sin_addr.s_addr == addr.sin_addr.s_addr) {
			snprintf(n->api, sizeof(n->api), "%s", api);
			return (int)i;
		}
	}
	if (c->node_count == MAX_NODES)
		return -1;
	if (c->node_count == c->node_room) {
		uint32_t room = c->node_room * 2 + 8;

		n = realloc(c->nodes, room * sizeof(*n));
		if (!n)
			return -1;
		c->nodes = n;
		c->node_room = room;
	}
	n = &c->nodes[c->node_count];
	memset(n, 0, sizeof(*n));
	snprintf(n->name, sizeof(n->name), "%s", name);
	if (*api)
		snprintf(n->api, sizeof(n->api), "%s", api);
	else
		snprintf(n->api, sizeof(n->api), "%s:%d", inet_ntoa(addr.sin_addr), NQ_PORT + 1);
	n->addr = addr;
	return (int)c->node_count++;
}

static struct chain *add_chain(struct map *m)
{
	struct chain *chains = realloc(m->chains, (m->chain_count + 1) * sizeof(*chains));

	if (!chains)
		return NULL;
	m->chains = chains;
	chains += m->chain_count++;
	memset(chains, 0, sizeof(*chains));
	chains->learner = -1;
	return chains;
}

/* Returns the first thing wrong with a map; NULL: nothing. */
static const char *check_map(const struct map *m)
{
	if (m->shards < 1 || m->shards > NQ_MAX_SHARDS || m->shards & (m->shards - 1))
		return "the number of shards is no power of two, or too large";
	for (uint32_t i = 0; i < m->chain_count; i++) {
		const struct chain *ch = &m->chains[i];

		if (ch->learner != -1 && (ch->learner < 1 || ch->learner >= ch->count - 1))
			return "a learner is not inside its chain";
		if (ch->count && !ch->epoch)
			return "a chain has the epoch 0, and the first is 1";
		for (int a = 0; a < ch->count; a++)
			for (int b = 0; b < a; b++)
				if (ch->members[a] == ch->members[b])
					return "a node is in a chain twice";
	}
	for (uint32_t i = 0; i < m->shards; i++)
		if (m->by_shard[i] >= m->chain_count)
			return "a shard has no chain";
	return NULL;
}

static const struct chain *chain_of(const struct map *m, uint32_t shard)
{
	return &m->chains[m->by_shard[shard]];
}

/* Takes a map over, if it may follow the present one. Epochs that go back would give refusals another meaning. */
static const char *take_map(struct nq_client *c, struct map *m)
{
	const struct map *old = c->map;
	const char *wrong = check_map(m);

	if (wrong)
		return wrong;
	if (old && old->cluster[0] && strcmp(old->cluster, m->cluster))
		return "the map is of another cluster";
	if (old && old->version >= m->version)
		return "the map is not newer";
	if (old && old->shards != m->shards)
		return "the number of shards changed";
	for (uint32_t i = 0; old && i < m->shards; i++)
		if (chain_of(m, i)->epoch < chain_of(old, i)->epoch)
			return "the epoch of a shard went back";
	if (!c->sessions) {
		c->sessions = calloc(m->shards, sizeof(*c->sessions));
		if (!c->sessions)
			return "no memory";
	}
	free_map(c->map);
	c->map = m;
	c->generation++;
	c->doubt = false;
	return NULL;
}

/* A message of Protocol Buffers that is being read. */
struct fields {
	const uint8_t *at, *end;
	bool wrong;
	uint32_t number;
	uint64_t value;	       /* of a number */
	const uint8_t *octets; /* of a text or message, else NULL */
	size_t count;
};

static uint64_t varint(struct fields *f)
{
	uint64_t v = 0;

	for (int shift = 0; f->at < f->end && shift < 64; shift += 7) {
		uint8_t b = *f->at++;

		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return v;
	}
	f->wrong = true;
	return 0;
}

/* Reads the next field; false: there is none, or the message is wrong. */
static bool next_field(struct fields *f)
{
	uint64_t tag;

	if (f->wrong || f->at == f->end)
		return false;
	tag = varint(f);
	f->number = (uint32_t)(tag >> 3);
	f->value = 0;
	f->octets = NULL;
	f->count = 0;
	switch (tag & 7) {
	case 0:
		f->value = varint(f);
		return !f->wrong;
	case 1:
		f->count = 8;
		break;
	case 5:
		f->count = 4;
		break;
	case 2:
		f->value = varint(f);
		f->count = (size_t)f->value;
		break;
	default:
		f->wrong = true;
	}
	if (f->wrong || f->count > (size_t)(f->end - f->at)) {
		f->wrong = true;
		return false;
	}
	f->octets = f->at;
	f->at += f->count;
	return true;
}

static struct fields fields_in(const struct fields *f)
{
	return (struct fields){.at = f->octets, .end = f->octets + f->count, .wrong = !f->octets};
}

static bool text_field(const struct fields *f, char *to, size_t room)
{
	return f->octets && copy_text(to, room, f->octets, f->count);
}

struct numbered {
	uint32_t id;
	uint16_t node;
};

static bool decode_node(struct nq_client *c, struct fields f, struct numbered *n)
{
	char name[NAME_BYTES] = "", addr[ADDR_BYTES] = "", api[ADDR_BYTES] = "";
	bool ok = true;
	int node;

	n->id = 0;
	while (ok && next_field(&f))
		if (f.number == 1)
			n->id = (uint32_t)f.value;
		else if (f.number == 2)
			ok = text_field(&f, name, sizeof(name));
		else if (f.number == 3)
			ok = text_field(&f, addr, sizeof(addr));
		else if (f.number == 4)
			ok = text_field(&f, api, sizeof(api));
	node = ok && !f.wrong && n->id ? node_of(c, name, addr, api) : -1;
	n->node = (uint16_t)node;
	return node >= 0;
}

static bool add_member(struct chain *ch, const struct numbered *nodes, uint32_t count, uint64_t id)
{
	for (uint32_t i = 0; i < count; i++)
		if (nodes[i].id == id && ch->count < NQ_MAX_CHAIN) {
			ch->members[ch->count++] = nodes[i].node;
			return true;
		}
	return false;
}

static bool decode_chain(struct map *m, struct fields f, const struct numbered *nodes, uint32_t count)
{
	struct chain *ch = add_chain(m);
	uint64_t learner = 0;
	bool ok = ch;

	while (ok && next_field(&f)) {
		if (f.number == 1)
			ch->epoch = (uint32_t)f.value;
		else if (f.number == 2 && !f.octets)
			ok = add_member(ch, nodes, count, f.value);
		else if (f.number == 2)
			for (struct fields in = fields_in(&f); ok && in.at < in.end;)
				ok = add_member(ch, nodes, count, varint(&in)) && !in.wrong;
		else if (f.number == 3)
			learner = f.value;
		else if (f.number == 4)
			ch->lost = f.value;
		else if (f.number == 5)
			ok = f.octets && f.count % 2 == 0;
		for (size_t i = 0; ok && f.number == 5 && i < f.count; i += 2) {
			uint32_t shard = (uint32_t)get(f.octets + i, 2);

			ok = shard < m->shards && m->by_shard[shard] == UINT32_MAX;
			if (ok)
				m->by_shard[shard] = m->chain_count - 1;
		}
	}
	for (uint32_t i = 0; ok && learner && i < count; i++)
		for (int place = 0; place < ch->count; place++)
			if (nodes[i].id == learner && nodes[i].node == ch->members[place])
				ch->learner = place;
	return ok && !f.wrong;
}

/* Reads one of the two passes over a map: first all but the chains, which name nodes and shards. */
static bool decode_pass(struct nq_client *c, struct map *m, struct fields f, struct numbered *nodes, bool chains)
{
	bool ok = true, required = false;

	while (ok && next_field(&f)) {
		if (f.number == 5 && chains)
			ok = decode_chain(m, fields_in(&f), nodes, m->node_count);
		if (chains)
			continue;
		if (f.number == 1)
			m->version = f.value;
		else if (f.number == 2)
			ok = text_field(&f, m->cluster, sizeof(m->cluster));
		else if (f.number == 3)
			m->shards = f.value > NQ_MAX_SHARDS ? 0 : (uint32_t)f.value;
		else if (f.number == 4 && m->node_count < MAX_NODES) {
			ok = decode_node(c, fields_in(&f), &nodes[m->node_count]);
			for (uint32_t i = 0; ok && i < m->node_count; i++)
				ok = nodes[i].id != nodes[m->node_count].id &&
				     nodes[i].node != nodes[m->node_count].node;
			m->nodes[m->node_count] = nodes[m->node_count].node;
			m->node_count++;
		} else if (f.number == 6)
			ok = f.octets && f.count < ADDR_BYTES && !memchr(f.octets, 0, f.count) &&
			     append(&m->controllers, f.octets, f.count) && append(&m->controllers, "", 1);
		else if (f.number == 7)
			required = f.value;
		else if (f.number == 8 && f.value <= TAGS_REQUIRED)
			m->tags = (int)f.value;
	}
	if (!chains && required && !m->tags)
		m->tags = TAGS_REQUIRED;
	return ok && !f.wrong;
}

/* Decodes the MapResponse of api/controller.proto, and takes it. */
static const char *decode_map(struct nq_client *c, const uint8_t *at, size_t count)
{
	struct numbered *nodes = calloc(MAX_NODES, sizeof(*nodes));
	struct fields f = {.at = at, .end = at + count};
	const char *wrong = "the map cannot be read";
	struct map *m = new_map();

	if (m && nodes && decode_pass(c, m, f, nodes, false) && m->shards) {
		m->by_shard = malloc(m->shards * sizeof(*m->by_shard));
		if (m->by_shard)
			memset(m->by_shard, 0xff, m->shards * sizeof(*m->by_shard));
		if (m->by_shard && decode_pass(c, m, f, nodes, true))
			wrong = take_map(c, m);
	}
	if (wrong)
		free_map(m);
	free(nodes);
	return wrong;
}

/* Decodes the KeysResponse of api/controller.proto. */
static const char *decode_keys(struct nq_client *c, const uint8_t *at, size_t count)
{
	struct fields f = {.at = at, .end = at + count};
	struct keys k = {0};

	while (next_field(&f)) {
		if (f.number == 1)
			k.sign = (uint32_t)f.value;
		if (f.number != 2 || k.count == KEY_GENERATIONS)
			continue;
		for (struct fields in = fields_in(&f); next_field(&in) || (f.wrong |= in.wrong);) {
			if (f.wrong)
				break;
			if (in.number == 1)
				k.of[k.count].generation = (uint32_t)in.value;
			if (in.number == 2 && in.octets && (k.of[k.count].has_read = in.count == 16))
				memcpy(k.of[k.count].read, in.octets, 16);
			if (in.number == 3 && in.octets && (k.of[k.count].has_write = in.count == 16))
				memcpy(k.of[k.count].write, in.octets, 16);
		}
		k.count++;
	}
	if (f.wrong)
		return "the keys cannot be read";
	c->keys = k;
	c->has_keys = true;
	return NULL;
}

/* A cluster file that is being read. */
struct file {
	struct nq_client *c;
	struct map *m;
	enum { TOP, NODES, CHAINS, CONTROLLERS } section;
	char name[NAME_BYTES], addr[ADDR_BYTES], api[ADDR_BYTES]; /* of the present node */
	bool fresh;						  /* the next word begins a chain */
	uint32_t epoch;
};

static bool end_node(struct file *f)
{
	int node;

	if (!f->name[0] && !f->addr[0])
		return true;
	node = node_of(f->c, f->name, f->addr, f->api);
	for (uint32_t i = 0; i < f->m->node_count && node >= 0; i++)
		if (f->m->nodes[i] == node || !strcmp(f->c->nodes[f->m->nodes[i]].name, f->name))
			node = -1;
	if (node < 0 || f->m->node_count == MAX_NODES)
		return false;
	f->m->nodes[f->m->node_count++] = (uint16_t)node;
	f->name[0] = f->addr[0] = f->api[0] = 0;
	return true;
}

static bool file_member(struct file *f, const char *word)
{
	struct chain *ch = f->fresh || !f->m->chain_count ? add_chain(f->m) : &f->m->chains[f->m->chain_count - 1];

	f->fresh = false;
	for (uint32_t i = 0; ch && i < f->m->node_count && ch->count < NQ_MAX_CHAIN; i++)
		if (!strcmp(f->c->nodes[f->m->nodes[i]].name, word)) {
			ch->members[ch->count++] = f->m->nodes[i];
			return true;
		}
	return false;
}

/* Takes a word, and the word behind a colon, if there is one. */
static bool file_word(struct file *f, const char *word, const char *value)
{
	if (f->section == CHAINS)
		return !value && file_member(f, word);
	if (f->section == CONTROLLERS)
		return append(&f->c->sources, word, strlen(word) + 1);
	if (!value)
		return false;
	if (f->section == NODES && !strcmp(word, "name"))
		return (!f->name[0] || end_node(f)) && copy_text(f->name, sizeof(f->name), value, strlen(value));
	if (f->section == NODES && !strcmp(word, "addr"))
		return copy_text(f->addr, sizeof(f->addr), value, strlen(value));
	if (f->section == NODES && !strcmp(word, "api"))
		return copy_text(f->api, sizeof(f->api), value, strlen(value));
	if (f->section != TOP)
		return false;
	if (!strcmp(word, "epoch"))
		f->epoch = (uint32_t)strtoul(value, NULL, 10);
	else if (!strcmp(word, "shards"))
		f->m->shards = (uint32_t)strtoul(value, NULL, 10);
	else if (!strcmp(word, "name"))
		return copy_text(f->m->cluster, sizeof(f->m->cluster), value, strlen(value));
	return true;
}

/* Reads one line of a cluster file. Its YAML is of words, in blocks or in brackets. */
static bool file_line(struct file *f, char *line)
{
	static const char *const sections[] = {"", "nodes:", "chains:", "controllers:"};
	char *p = line, *word, *value;

	if (*line != ' ' && *line != '-' && *line != '[') {
		if (!end_node(f))
			return false;
		f->section = TOP;
		for (int i = NODES; i <= CONTROLLERS; i++)
			if (!strncmp(line, sections[i], strlen(sections[i]))) {
				f->section = i;
				f->fresh = true;
				p += strlen(sections[i]);
			}
	}
	for (int dashes = 0; *p;) {
		if (*p == '-' && (p[1] == ' ' || !p[1]) && ++dashes == 2)
			f->fresh = true;
		if (*p == '[')
			f->fresh = true;
		if (strchr(" \t\r[]{},\"'", *p) || (*p == '-' && (p[1] == ' ' || !p[1]))) {
			p++;
			continue;
		}
		word = p;
		p += strcspn(p, " \t\r[]{},\"'");
		value = NULL;
		if (p[-1] == ':' && f->section != CHAINS && f->section != CONTROLLERS) {
			p[-1] = 0;
			value = p + strspn(p, " \t\"'");
			p = value + strcspn(value, " \t\r[]{},\"'");
		}
		if (*p)
			*p++ = 0;
		if (!file_word(f, word, value))
			return false;
	}
	return true;
}

/* Reads the text of a cluster file. It is changed. */
static const char *parse_file(struct nq_client *c, char *text)
{
	struct file f = {.c = c, .m = new_map()};
	const char *wrong = f.m ? NULL : "no memory";

	for (char *line = text, *next; !wrong && line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (*line == '#' || strstr(line, " #"))
			*(*line == '#' ? line : strstr(line, " #")) = 0;
		if (*line && strcmp(line, "---") && !file_line(&f, line))
			wrong = "it is no cluster file that netcraq wrote";
	}
	if (!wrong && !end_node(&f))
		wrong = "a node has no name or no IPv4 address and port";
	if (!wrong && !c->sources.count) {
		f.m->version = f.epoch;
		f.m->by_shard = f.m->shards <= NQ_MAX_SHARDS ? calloc(f.m->shards + 1, sizeof(*f.m->by_shard)) : NULL;
		if (!f.m->by_shard || !f.m->chain_count || !f.epoch)
			wrong = "it has no chains, no epoch, or too many shards";
		for (uint32_t i = 0; !wrong && i < f.m->chain_count; i++)
			f.m->chains[i].epoch = f.epoch;
		for (uint32_t i = 0; !wrong && i < f.m->shards; i++)
			f.m->by_shard[i] = i % f.m->chain_count;
		wrong = wrong ? wrong : take_map(c, f.m);
		if (!wrong)
			return NULL;
	}
	free_map(f.m);
	return wrong;
}

/* Following: streams of maps and of keys, which are read while an operation waits. */

static void end_stream(struct stream *s, const char *why)
{
	if (s->secure)
		s->secure = NULL;
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->in.count = s->body.count = 0;
	s->consumed = 0;
	s->failures = why ? (s->failures < 6 ? s->failures + 1 : 6) : 0;
	s->retry_at = now_is() + (why ? min_of(RETRY_AFTER * (1 << s->failures), RETRY_AT_LEAST) : 0);
	if (why)
		snprintf(s->failure, sizeof(s->failure), "%s: %s", s->addr, why);
}

static void close_stream(struct nq_client *c, struct stream *s, const char *why)
{
	if (s->secure)
		c->options.transport->close(s->secure);
	end_stream(s, why);
}

static void frame(struct bytes *b, int kind, int flags, uint32_t id, const void *payload, size_t count)
{
	uint8_t head[9];

	set(head, 3, count);
	head[3] = (uint8_t)kind;
	head[4] = (uint8_t)flags;
	set(head + 5, 4, id);
	append(b, head, sizeof(head));
	append(b, payload, count);
}

static void header(struct bytes *b, const char *name, const char *value)
{
	uint8_t lengths[2] = {(uint8_t)strlen(name), (uint8_t)strlen(value)};

	append(b, "\x10", 1); /* a literal that is never indexed */
	append(b, &lengths[0], 1);
	append(b, name, lengths[0]);
	append(b, &lengths[1], 1);
	append(b, value, lengths[1]);
}

/* Sends all of it, or ends the stream. What a call sends fits the socket's buffer. */
static bool send_all(struct nq_client *c, struct stream *s, struct bytes *b)
{
	ssize_t n = s->secure ? c->options.transport->write(s->secure, b->at, b->count)
			      : send(s->fd, b->at, b->count, MSG_NOSIGNAL);
	bool ok = n == (ssize_t)b->count;

	free(b->at);
	if (!ok)
		close_stream(c, s, "the connection broke");
	return ok;
}

/* Sends the call, once the socket is connected. */
static void start_call(struct nq_client *c, struct stream *s)
{
	static const uint8_t settings[] = {0, 2, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff};
	struct bytes out = {0}, headers = {0}, body = {0};
	bool maps = s == &c->map_stream;
	int error = 0;
	socklen_t size = sizeof(error);
	uint8_t window[4];

	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &size) || error) {
		close_stream(c, s, strerror(error));
		return;
	}
	if (c->options.transport) {
		char host[ADDR_BYTES];

		snprintf(host, sizeof(host), "%s", s->addr);
		*strrchr(host, ':') = 0;
		fcntl(s->fd, F_SETFL, 0);
		s->secure = c->options.transport->secure(c->options.transport->context, s->fd, host);
		fcntl(s->fd, F_SETFL, O_NONBLOCK);
		if (!s->secure) {
			close_stream(c, s, "no secure connection: is the identity of this cluster?");
			return;
		}
	}
	header(&headers, ":method", "POST");
	header(&headers, ":scheme", c->options.transport ? "https" : "http");
	header(&headers, ":path",
	       maps ? "/netcraq.controller.v1.Controller/Map" : "/netcraq.controller.v1.Controller/Keys");
	header(&headers, ":authority", s->addr);
	header(&headers, "content-type", "application/grpc");
	header(&headers, "te", "trailers");
	append(&body, "\0\0\0\0\0", 5);
	if (maps && c->map) {
		append(&body, "\x08", 1);
		for (uint64_t v = c->map->version;; v >>= 7) {
			uint8_t b = (uint8_t)(v > 0x7f ? v | 0x80 : v);

			append(&body, &b, 1);
			if (v <= 0x7f)
				break;
		}
	}
	body.at[4] = (uint8_t)(body.count - 5);
	append(&out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	frame(&out, 4, 0, 0, settings, sizeof(settings));
	set(window, 4, WINDOW - 65535);
	frame(&out, 8, 0, 0, window, 4);
	frame(&out, 1, 4, 1, headers.at, headers.count);
	frame(&out, 0, 1, 1, body.at, body.count);
	free(headers.at);
	free(body.at);
	s->ready = true;
	s->since = now_is();
	send_all(c, s, &out);
}

/* Chooses one of the addresses that the client was given, of controllers and of nodes; preferably another one. */
static bool choose_source(struct nq_client *c, struct stream *s)
{
	const struct bytes *lists[2] = {&c->sources, c->map ? &c->map->controllers : NULL};
	bool maps = s == &c->map_stream;
	char last[ADDR_BYTES];
	uint32_t seen = 0;

	memcpy(last, s->addr, sizeof(last));
	for (int i = maps || !lists[1] || !lists[1]->count ? 0 : 1; i < 2; i++)
		for (size_t at = 0; lists[i] && at < lists[i]->count; at += strlen((char *)lists[i]->at + at) + 1) {
			const char *addr = (char *)lists[i]->at + at;

			if ((!strcmp(addr, last) && seen) || random_id() % ++seen)
				continue;
			snprintf(s->addr, sizeof(s->addr), strrchr(addr, ':') ? "%s" : "%s:4413", addr);
		}
	for (uint32_t i = 0; maps && c->map && i < 3 && c->map->node_count; i++) {
		const char *api = c->nodes[c->map->nodes[random_id() % c->map->node_count]].api;

		if (*api && random_id() % ++seen == 0 && strcmp(api, last))
			snprintf(s->addr, sizeof(s->addr), "%s", api);
	}
	return seen;
}

/* Begins to connect a stream. A name is looked up, which may take a moment. */
static void connect_stream(struct nq_client *c, struct stream *s)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	char host[ADDR_BYTES], *colon;
	int one = 1;

	if (!choose_source(c, s))
		return;
	snprintf(host, sizeof(host), "%s", s->addr);
	colon = strrchr(host, ':');
	*colon++ = 0;
	if (getaddrinfo(host, colon, &hints, &found)) {
		end_stream(s, "there is no such address");
		return;
	}
	s->ready = false;
	s->since = now_is();
	s->fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0 || (connect(s->fd, found->ai_addr, found->ai_addrlen) && errno != EINPROGRESS))
		end_stream(s, strerror(errno));
	else
		setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	freeaddrinfo(found);
}

/* Takes the whole messages out of the body. */
static const char *take_messages(struct nq_client *c, struct stream *s)
{
	while (s->body.count >= 5) {
		size_t count = (size_t)get(s->body.at + 1, 4);
		const char *wrong;

		if (s->body.at[0] || count > MAX_MAP_BYTES)
			return "an answer is compressed or too long";
		if (s->body.count < 5 + count)
			return NULL;
		wrong =
		    s == &c->map_stream ? decode_map(c, s->body.at + 5, count) : decode_keys(c, s->body.at + 5, count);
		if (wrong && strcmp(wrong, "the map is not newer"))
			return wrong;
		drop_front(&s->body, 5 + count);
		s->failures = 0;
		c->heard = now_is();
	}
	return NULL;
}

/* Why a call ended, by gRPC's status, whose name is in the code of HPACK in the trailers. */
static const char *why_ended(const uint8_t *at, size_t count)
{
	static const uint8_t name[] = {0x88, 0x9a, 0xca, 0xc8, 0xb2, 0x12, 0x34, 0xda, 0x8f};
	const uint8_t *found = memmem(at, count, name, sizeof(name));

	if (found && found + sizeof(name) + 1 < at + count) {
		found += sizeof(name);
		if (found[0] == 1 && found[1] == '7')
			return "the role of this identity may not call it";
		if (found[0] == 2 && found + 2 < at + count && found[1] == '1')
			return found[2] == '2'	 ? "it is no controller or node"
			       : found[2] == '4' ? "the cluster is not formed yet"
						 : "it does not believe the certificate";
	}
	return "the call ended";
}

/* Handles one whole frame of HTTP/2. */
static const char *take_frame(struct nq_client *c, struct stream *s, const uint8_t *f, size_t count)
{
	int kind = f[3], flags = f[4];
	uint32_t id = (uint32_t)get(f + 5, 4) & WINDOW;
	struct bytes out = {0};
	const char *wrong;

	if (kind == 0 && id == 1) {
		size_t skip = flags & 8 && count ? 1 : 0, padding = skip ? f[9] : 0;

		if (skip + padding > count)
			return "a frame is shorter than its padding";
		if (!append(&s->body, f + 9 + skip, count - skip - padding))
			return "no memory";
		s->consumed += (uint32_t)count;
		if (s->consumed > 1 << 20) {
			uint8_t update[4];

			set(update, 4, s->consumed);
			frame(&out, 8, 0, 0, update, 4);
			frame(&out, 8, 0, 1, update, 4);
			s->consumed = 0;
		}
		wrong = take_messages(c, s);
		if (wrong) {
			free(out.at);
			return wrong;
		}
	} else if (kind == 4 && !(flags & 1)) {
		frame(&out, 4, 1, 0, NULL, 0);
	} else if (kind == 6 && !(flags & 1)) {
		frame(&out, 6, 1, 0, f + 9, count);
	} else if (kind == 3 || kind == 7) {
		return "the server ended the call";
	}
	if ((kind == 0 || kind == 1) && id == 1 && flags & 1) {
		free(out.at);
		return kind == 1 ? why_ended(f + 9, count) : "the call ended";
	}
	if (out.count && !send_all(c, s, &out))
		return "the connection broke";
	return NULL;
}

/* Reads what there is of a stream. */
static void read_stream(struct nq_client *c, struct stream *s)
{
	uint8_t got[1 << 14];
	const char *wrong = NULL;

	while (s->fd >= 0 && s->ready) {
		ssize_t n = s->secure ? c->options.transport->read(s->secure, got, sizeof(got))
				      : recv(s->fd, got, sizeof(got), 0);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0 || !append(&s->in, got, (size_t)n))
			wrong = "the connection ended";
		while (!wrong && s->in.count >= 9) {
			size_t count = (size_t)get(s->in.at, 3);

			if (count > 1 << 14)
				wrong = "a frame of HTTP/2 is too long";
			else if (s->in.count < 9 + count)
				break;
			else
				wrong = take_frame(c, s, s->in.at, count);
			if (!wrong)
				drop_front(&s->in, 9 + count);
		}
		if (wrong)
			close_stream(c, s, wrong);
	}
}

/* Opens and ends streams as the time wants it. */
static void follow(struct nq_client *c, double now)
{
	struct stream *streams[2] = {&c->map_stream, &c->key_stream};

	for (int i = 0; i < 2 && c->follows; i++) {
		struct stream *s = streams[i];

		if (s->fd < 0 && now >= s->retry_at && (i == 0 || (c->map && c->map->tags != TAGS_OFF)))
			connect_stream(c, s);
		if (s->fd >= 0 && !s->ready && now - s->since > CONNECT_WITHIN)
			close_stream(c, s, "no connection in time");
	}
	if ((!c->doubt && c->map) || c->map_stream.fd < 0) {
		c->heard = now;
	} else if (now - max_of(c->heard, c->map_stream.since) > NEWS_WITHIN) {
		close_stream(c, &c->map_stream, NULL);
		c->heard = now;
	}
}

/* Waits until an answer is there, a stream has news, or so many seconds are over. */
static void await(struct nq_client *c, double seconds)
{
	struct stream *streams[2] = {&c->map_stream, &c->key_stream};
	struct pollfd fds[3] = {{.fd = c->udp, .events = POLLIN}};
	struct timespec t;
	double now = now_is();

	follow(c, now);
	if (c->follows)
		seconds = min_of(seconds, 0.05);
	seconds = max_of(seconds, 0);
	t.tv_sec = (time_t)seconds;
	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
	for (int i = 0; i < 2; i++) {
		fds[i + 1].fd = streams[i]->fd;
		fds[i + 1].events = streams[i]->ready ? POLLIN : POLLOUT;
	}
	if (ppoll(fds, 3, &t, NULL) <= 0)
		return;
	for (int i = 0; i < 2; i++) {
		if (!fds[i + 1].revents || streams[i]->fd < 0)
			continue;
		if (!streams[i]->ready)
			start_call(c, streams[i]);
		read_stream(c, streams[i]);
	}
}

/* One operation. */

struct attempt {
	uint64_t id;
	struct chain route;
	uint16_t to;
	double sent;
};

struct call {
	struct nq_client *c;
	struct nq_result *result;
	int op;
	bool write;
	uint64_t key[2], operand;
	const uint8_t *value;
	size_t value_bytes;
	uint32_t only_epoch, shard;
	uint8_t flags;
	uint16_t bound;
	const char *from;
	double started, until, booted, wall;
	uint64_t generation; /* of the map that the route is from */
	struct chain route;
	struct session *session; /* of a write that was sent */
	uint64_t session_id, seq;
	unsigned tried, asked;
	int pauses, misses, alive;
	struct attempt attempts[KEPT];
	enum nq_error before;
	char obstacle[128];
};

enum verdict { IGNORE, DONE, LATER };

static void release(struct call *k)
{
	k->session = NULL;
}

static enum verdict fail(struct call *k, enum nq_error error, bool unknown, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static enum verdict fail(struct call *k, enum nq_error error, bool unknown, const char *format, ...)
{
	struct nq_result *r = k->result;
	char text[160];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	r->error = unknown ? NQ_UNKNOWN : error;
	r->cause = unknown ? error : NQ_OK;
	r->before = error == NQ_TIMEOUT ? k->before : NQ_OK;
	snprintf(r->text, sizeof(r->text), "%s%s",
		 unknown ? "outcome unknown, the write may or may not take effect: " : "", text);
	if (unknown && k->session) /* its session is lost (W10) */
		k->session->id = 0;
	release(k);
	return DONE;
}

/* Ends with an error that leaves it open whether a write happens, if an attempt may still take effect. */
#define abandon(k, error, ...) fail(k, error, (k)->alive > 0, __VA_ARGS__)

static enum verdict expire(struct call *k)
{
	return abandon(k, NQ_TIMEOUT, k->before ? "no answer in time; before: %s" : "no answer in time%s",
		       k->before ? k->obstacle : "");
}

static void follow_map(struct call *k)
{
	const struct chain *ch = chain_of(k->c->map, k->shard);

	if (k->generation == k->c->generation)
		return;
	if (!k->generation || memcmp(ch, &k->route, sizeof(*ch)))
		k->tried = k->asked = 0;
	k->generation = k->c->generation;
	k->route = *ch;
}

static unsigned serving(const struct chain *ch)
{
	unsigned all = (1u << ch->count) - 1;

	return ch->learner >= 0 ? all & ~(1u << ch->learner) : all;
}

/* Returns the place in the chain of the node to ask; -1: there is none, and the call has ended. */
static int choose(struct call *k)
{
	const struct chain *ch = &k->route;
	struct node *nodes = k->c->nodes;
	int best = -1, seen = 0;
	bool first, explore, nearest;

	if (ch->lost || !ch->count) {
		abandon(k, NQ_NO_CHAIN, "no chain serves the key: shard %u has none", k->shard);
		return -1;
	}
	if (k->write) /* every second retry asks another node, which forwards: the path to the head may be broken */
		return k->misses && k->misses % 2 == 0 ? k->misses / 2 % ch->count : 0;
	if ((k->tried & serving(ch)) == serving(ch))
		k->tried = 0;
	first = !k->tried;
	if (!strncmp(k->from, "node:", 5)) {
		for (int i = 0; i < ch->count; i++)
			if (!strcmp(nodes[ch->members[i]].name, k->from + 5))
				return i;
		abandon(k, NQ_BAD_REQUEST, "%s is not in the chain of this key's shard %u", k->from, k->shard);
		return -1;
	}
	if (!strcmp(k->from, "tail") && first)
		return ch->count - 1;
	nearest = !strcmp(k->from, "nearest");
	explore = !nearest || (first && random_id() % 256 == 0);
	for (int i = 0; i < ch->count; i++) {
		if (!((serving(ch) & ~k->tried) >> i & 1))
			continue;
		seen++;
		if (best < 0 ||
		    (explore ? random_id() % (unsigned)seen == 0
			     : nodes[ch->members[i]].near < nodes[ch->members[best]].near ||
				   (nodes[ch->members[i]].near == nodes[ch->members[best]].near && random_id() % 2)))
			best = i;
	}
	return best;
}

/* Takes the session of a write. A machine that may have been paused draws new ones (W10). */
static void take_session(struct call *k)
{
	struct nq_client *c = k->c;
	double apart = k->wall - k->booted;

	if (apart - c->apart > 1 || c->apart - apart > 1)
		memset(c->sessions, 0, c->map->shards * sizeof(*c->sessions));
	c->apart = apart;
	k->session = &c->sessions[k->shard];
	if (!k->session->id)
		*k->session = (struct session){.id = random_id()};
	k->session_id = k->session->id;
	k->seq = ++k->session->seq;
}

/* Encodes the next attempt, and returns its length; 0: there must be none, and the call has ended. */
static size_t next_attempt(struct call *k, double now, uint8_t *m, struct attempt **sent)
{
	struct nq_client *c = k->c;
	size_t count = k->write ? NQ_CHAIN_BYTES + k->value_bytes : NQ_BASE_BYTES;
	bool tagged;
	int place;

	if (k->write && k->result->attempts &&
	    (clock_of(CLOCK_BOOTTIME) - k->booted > NQ_MAX_RETRY_S ||
	     clock_of(CLOCK_REALTIME) - k->wall > NQ_MAX_RETRY_S))
		return expire(k), 0;
	follow_map(k);
	if (k->only_epoch && k->only_epoch != k->route.epoch)
		return abandon(k, NQ_OTHER_EPOCH, "the shard is in another epoch"), 0;
	place = choose(k);
	if (place < 0)
		return 0;
	tagged = c->map->tags >= TAGS_SENT && (c->has_keys || c->map->tags == TAGS_REQUIRED);
	if (tagged && (!c->has_keys || !secret_of(&c->keys, c->keys.sign, k->op)))
		return abandon(k, NQ_DENIED, "denied: this identity may not do it; use one with another role"), 0;
	if (k->write && !k->session)
		take_session(k);
	k->alive += k->write;
	k->tried |= 1u << place;
	k->asked |= 1u << place;
	*sent = &k->attempts[k->result->attempts++ % KEPT];
	**sent = (struct attempt){c->next_id++, k->route, k->route.members[place], now};
	memset(m, 0, count);
	set(m + NQ_BASE_MAGIC_AT, 2, NQ_MAGIC);
	m[NQ_BASE_VERSION_AT] = NQ_WIRE_VERSION;
	m[NQ_BASE_OP_AT] = (uint8_t)k->op;
	m[NQ_BASE_FLAGS_AT] = k->flags;
	set(m + NQ_BASE_SHARD_AT, 2, k->shard);
	set(m + NQ_BASE_EPOCH_AT, 4, k->route.epoch);
	set(m + NQ_BASE_DETAIL_AT, 2, k->bound);
	set(m + NQ_BASE_REQUEST_AT, 8, (*sent)->id);
	set(m + NQ_BASE_KEY_HI_AT, 8, k->key[0]);
	set(m + NQ_BASE_KEY_LO_AT, 8, k->key[1]);
	if (k->write) {
		set(m + NQ_CHAIN_SESSION_AT, 8, k->session_id);
		set(m + NQ_CHAIN_SEQ_AT, 8, k->seq);
		set(m + NQ_CHAIN_OPERAND_AT, 8, k->operand);
		if (k->value_bytes)
			memcpy(m + NQ_CHAIN_BYTES, k->value, k->value_bytes);
	}
	set(m + NQ_BASE_CHECKSUM_AT, 2, (uint16_t)~fold(m, count));
	return tagged ? add_tag(&c->keys, &c->nodes[(*sent)->to].addr, m, count) : count;
}

static void sample(struct estimate *e, double took)
{
	double off = took - e->mean;

	if (!e->mean) {
		e->mean = max_of(took, 1e-9);
		e->deviation = took / 2;
		return;
	}
	e->deviation += ((off < 0 ? -off : off) - e->deviation) / 4;
	e->mean = max_of(e->mean + off / 8, 1e-9);
}

/* How long the latest attempt waits for its answer. */
static double patience(const struct call *k, const struct node *to)
{
	const struct estimate *e = k->write ? &to->writes : &to->reads;
	double limit = k->c->attempt, wait = limit;
	int rounds = k->write ? k->misses - 1 : k->misses / max_of(__builtin_popcount(serving(&k->route)), 1);

	if (e->mean)
		wait = min_of(max_of(e->mean + 4 * e->deviation, LEAST), limit);
	for (; rounds > 0 && wait < limit; rounds--)
		wait = min_of(2 * wait, limit);
	return wait;
}

/* How long to wait before the next attempt after BUSY: longer each time, and random. */
static double pause_of(struct call *k)
{
	double limit = min_of(0.0001 * (1 << (k->pauses < 20 ? k->pauses : 20)), 0.004);

	if (k->pauses > 32)
		limit *= 1 << (k->pauses < 56 ? (k->pauses - 32) / 8 : 3);
	k->pauses++;
	return limit / 2 + limit * (double)(random_id() >> 11) / (double)(1ull << 53);
}

static enum verdict obstacle(struct call *k, enum nq_error error, const char *format, const char *node, unsigned ours,
			     unsigned theirs)
{
	k->before = error;
	if (error == NQ_BUSY)
		snprintf(k->obstacle, sizeof(k->obstacle), "%s is busy", node);
	else
		snprintf(k->obstacle, sizeof(k->obstacle), format, node, ours, theirs);
	return LATER;
}

static enum verdict not_mine(struct call *k, const struct attempt *a, const struct node *n, const struct reply *m)
{
	bool named = !strncmp(k->from, "node:", 5);

	obstacle(k, NQ_NOT_MINE, "%.40s does not serve the shard in epoch %u, it has %u: use the cluster's own file",
		 n->name, a->route.epoch, m->epoch);
	if (k->c->follows) {
		if (m->epoch > a->route.epoch && k->generation == k->c->generation)
			k->c->doubt = true;
		return LATER;
	}
	if (!k->write && !named && __builtin_popcount(k->asked) < a->route.count)
		return LATER; /* another node of the chain may know better */
	if (k->write && m->epoch < a->route.epoch)
		return LATER; /* it is just starting */
	return abandon(k, NQ_NOT_MINE, "%s", k->obstacle);
}

static void fill(struct call *k, const struct node *n, const struct reply *m)
{
	struct nq_result *r = k->result;

	r->version = m->version;
	r->epoch = m->epoch;
	snprintf(r->node, sizeof(r->node), "%s", n->name);
	r->value_bytes = 0;
	if (m->status == NQ_STATUS_OK || (m->status == NQ_STATUS_CAS_FAILED && !(m->flags & NQ_FLAG_NO_VALUE))) {
		r->value_bytes = m->value_bytes;
		memcpy(r->value, m->value, m->value_bytes);
	}
	r->value[r->value_bytes] = 0;
	if (k->op == NQ_OP_ADD && m->value_bytes == 8)
		r->counter = (int64_t)get(m->value, 8);
}

/* Takes a refusal of a write, which comes from the epoch of the latest attempt. */
static enum verdict refused(struct call *k, const struct node *n, const struct reply *m)
{
	bool certain = m->flags & NQ_FLAG_NO_VALUE, session = m->flags & NQ_FLAG_SESSION;

	if (m->status == NQ_STATUS_CAS_FAILED && k->op == NQ_OP_CAS) {
		fill(k, n, m);
		k->result->value_unknown = certain;
		return fail(k, NQ_CAS_FAILED, false, "version %llu expected, but it is %llu",
			    (unsigned long long)k->operand, (unsigned long long)m->version);
	}
	if (m->status == NQ_STATUS_BAD_REQUEST && k->op == NQ_OP_ADD)
		return fail(k, NQ_NOT_COUNTER, false, "the value is not a counter of 8 bytes");
	if (m->status == NQ_STATUS_TOO_LARGE) {
		k->alive--; /* the node that said so will say so again */
		return abandon(k, NQ_TOO_LARGE, "the value is too large for the cells of %s", n->name);
	}
	if (m->status == NQ_STATUS_FULL) {
		if (certain && session)
			k->session->id = 0; /* the node takes no write in it for some time (W14) */
		return fail(k, NQ_FULL, !certain, "%s: no room for another %s", n->name,
			    session || !certain ? "session" : "object");
	}
	return abandon(k, NQ_BAD_REQUEST, "%s answered status %d", n->name, m->status);
}

static void measure(struct call *k, double now, const struct attempt *a, struct node *n, int status)
{
	struct node *to = &k->c->nodes[a->to];
	double took = max_of(now - a->sent, 1e-9);

	if (status == NQ_STATUS_BUSY || status == NQ_STATUS_NOT_MINE || (k->write && status != NQ_STATUS_OK))
		return;
	sample(k->write ? &to->writes : &to->reads, took);
	if (k->write || n != to)
		return;
	if (!n->near || took < n->near / 2)
		n->near = took;
	else
		n->near += (min_of(took, 2 * n->near) - n->near) / 8;
}

/* Interprets an answer. client/judge.go explains the rules. */
static enum verdict judge(struct call *k, double now, const struct sockaddr_in *from, const struct reply *m)
{
	unsigned kept = k->result->attempts < KEPT ? k->result->attempts : KEPT;
	const struct attempt *a = NULL, *latest = &k->attempts[(k->result->attempts - 1) % KEPT];
	struct node *n = NULL;

	for (unsigned i = 0; i < kept; i++)
		if (k->attempts[i].id == m->request)
			a = &k->attempts[i];
	if (!a || m->key[0] != k->key[0] || m->key[1] != k->key[1] || m->shard != k->shard)
		return IGNORE;
	for (int i = 0; i < a->route.count; i++) {
		struct node *each = &k->c->nodes[a->route.members[i]];

		if (each->addr.sin_addr.s_addr == from->sin_addr.s_addr && each->addr.sin_port == from->sin_port)
			n = each;
	}
	if (!n)
		return IGNORE;
	measure(k, now, a, n, m->status);
	switch (m->status) {
	case NQ_STATUS_OK:
		if (k->op == NQ_OP_ADD && m->value_bytes != 8)
			return IGNORE; /* no node says this */
		fill(k, n, m);
		release(k);
		return DONE;
	case NQ_STATUS_BUSY:
		return a == latest ? obstacle(k, NQ_BUSY, NULL, n->name, 0, 0) : IGNORE;
	case NQ_STATUS_NOT_MINE:
		return a == latest ? not_mine(k, a, n, m) : IGNORE;
	case NQ_STATUS_NOT_FOUND:
		if (k->write)
			return IGNORE;
		fill(k, n, m);
		return fail(k, NQ_NOT_FOUND, false, "not found");
	}
	if (!k->write)
		return fail(k, NQ_BAD_REQUEST, false, "%s answered status %d", n->name, m->status);
	return a->route.epoch == k->route.epoch ? refused(k, n, m) : IGNORE;
}

/* Takes the answers that are in the socket, up to one that says something. */
static enum verdict receive(struct call *k)
{
	uint8_t m[NQ_MAX_MESSAGE_BYTES + NQ_TRAILER_BYTES + 1];
	struct nq_client *c = k->c;

	for (;;) {
		struct sockaddr_in from;
		socklen_t size = sizeof(from);
		ssize_t n = recvfrom(c->udp, m, sizeof(m), MSG_DONTWAIT, (struct sockaddr *)&from, &size);
		size_t count = (size_t)n;
		enum verdict v = IGNORE;
		struct reply r;

		if (n < 0)
			return IGNORE;
		if (open_answer(c->map->tags, c->has_keys ? &c->keys : NULL, &from, m, &count) &&
		    decode_reply(m, count, &r))
			v = judge(k, now_is(), &from, &r);
		if (v != IGNORE)
			return v;
	}
}

/* Notes that the latest attempt stayed without an answer. */
static void missed(struct call *k, struct node *to)
{
	k->misses++;
	if (!k->write)
		to->near = max_of(to->near, k->c->attempt);
	if (k->misses > 1 && k->generation == k->c->generation)
		k->c->doubt = true;
}

/* Sends once and waits for the answer. Returns whether the call has ended. */
static bool attempt(struct call *k)
{
	uint8_t m[NQ_MAX_MESSAGE_BYTES + NQ_TRAILER_BYTES];
	struct nq_client *c = k->c;
	double now = now_is(), until;
	struct attempt *sent;
	size_t count = next_attempt(k, now, m, &sent);
	bool pausing = false;
	uint16_t to;

	if (!count)
		return true;
	to = sent->to;
	until = now + patience(k, &c->nodes[to]);
	if (sendto(c->udp, m, count, 0, (struct sockaddr *)&c->nodes[to].addr, sizeof(c->nodes[to].addr)) < 0) {
		k->misses++;
		k->alive -= k->write;
		obstacle(k, NQ_SYSTEM, "the message to %s was not sent (%u, %u)", c->nodes[to].name, (unsigned)errno,
			 0);
		until = now + pause_of(k);
		pausing = true;
	}
	for (;;) {
		enum verdict v = receive(k);

		if (v == DONE)
			return true;
		now = now_is();
		if (v == LATER) {
			until = now + pause_of(k);
			pausing = true;
		}
		if (now >= k->until)
			return receive(k) == DONE || expire(k) == DONE;
		if (now >= until) {
			if (!pausing)
				missed(k, &c->nodes[to]);
			return false;
		}
		if (k->generation != c->generation && chain_of(c->map, k->shard)->epoch != k->route.epoch)
			return false; /* a newer map has another chain */
		await(c, min_of(until, k->until) - now);
	}
}

static const char *open_socket(struct nq_client *c)
{
	struct sockaddr_in local = {.sin_family = AF_INET};

	if (c->options.local && inet_pton(AF_INET, c->options.local, &local.sin_addr) != 1)
		return "the local address is not IPv4";
	c->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (c->udp < 0 || bind(c->udp, (struct sockaddr *)&local, sizeof(local)))
		return strerror(errno);
	return NULL;
}

/* Readies the copy of a client in a forked child: it shares no socket, session or id with its parent. */
static void after_fork(struct nq_client *c)
{
	c->pid = getpid();
	c->next_id = random_id();
	memset(c->sessions, 0, c->map->shards * sizeof(*c->sessions));
	end_stream(&c->map_stream, NULL); /* without a word to the other side, which is the parent's */
	end_stream(&c->key_stream, NULL);
	close(c->udp);
	if (open_socket(c)) /* no operation can be sent then, and each says so */
		c->udp = -1;
}

static bool known_policy(const char *from)
{
	return !strcmp(from, "nearest") || !strcmp(from, "spread") || !strcmp(from, "tail") ||
	       !strncmp(from, "node:", 5);
}

static enum nq_error run(struct call *k, const void *key, size_t key_bytes, unsigned timeout_ms)
{
	struct nq_client *c = k->c;

	memset(k->result, 0, offsetof(struct nq_result, value) + 1);
	k->write = k->op != NQ_OP_READ;
	if (key_bytes < 1 || key_bytes > NQ_MAX_KEY_BYTES || !known_policy(k->from)) {
		fail(k, NQ_BAD_REQUEST, false,
		     "a key has 1 to %d bytes, and a read is from nearest, spread, tail or node:NAME",
		     NQ_MAX_KEY_BYTES);
		return k->result->error;
	}
	if (k->value_bytes > NQ_MAX_VALUE_BYTES) {
		fail(k, NQ_TOO_LARGE, false, "%zu bytes, and the maximum is %d", k->value_bytes, NQ_MAX_VALUE_BYTES);
		return k->result->error;
	}
	hash_key(key, key_bytes, k->key);
	if (getpid() != c->pid)
		after_fork(c);
	if (c->follows)
		await(c, 0); /* what came since the last operation */
	k->shard = (uint32_t)k->key[1] & (c->map->shards - 1);
	k->started = now_is();
	k->booted = clock_of(CLOCK_BOOTTIME);
	k->wall = clock_of(CLOCK_REALTIME);
	k->until = k->started + (timeout_ms ? timeout_ms / 1000.0 : c->timeout);
	if (k->write)
		k->until = min_of(k->until, k->started + NQ_MAX_RETRY_S);
	while (!attempt(k))
		;
	return k->result->error;
}

enum nq_error nq_get(struct nq_client *c, const void *key, size_t key_bytes, const struct nq_read *how,
		     struct nq_result *result)
{
	struct call k = {.c = c, .result = result, .op = NQ_OP_READ, .from = c->read_from};

	if (how && how->from)
		k.from = how->from;
	if (how && how->any)
		k.flags = NQ_FLAG_ANY;
	else if (how && how->bounded)
		k.flags = NQ_FLAG_BOUNDED;
	if (k.flags == NQ_FLAG_BOUNDED)
		k.bound = (uint16_t)how->bound_ms;
	if (k.flags == NQ_FLAG_BOUNDED && how->bound_ms > UINT16_MAX)
		k.from = ""; /* which is refused */
	return run(&k, key, key_bytes, how ? how->timeout_ms : 0);
}

static enum nq_error write_op(struct nq_client *c, int op, const void *key, size_t key_bytes, uint64_t operand,
			      const void *value, size_t value_bytes, const struct nq_write *how,
			      struct nq_result *result)
{
	struct call k = {.c = c,
			 .result = result,
			 .op = op,
			 .operand = operand,
			 .value = value,
			 .value_bytes = value_bytes,
			 .from = c->read_from,
			 .only_epoch = how ? how->in_epoch : 0};

	return run(&k, key, key_bytes, how ? how->timeout_ms : 0);
}

enum nq_error nq_put(struct nq_client *c, const void *key, size_t key_bytes, const void *value, size_t value_bytes,
		     const struct nq_write *how, struct nq_result *result)
{
	return write_op(c, NQ_OP_PUT, key, key_bytes, 0, value, value_bytes, how, result);
}

enum nq_error nq_delete(struct nq_client *c, const void *key, size_t key_bytes, const struct nq_write *how,
			struct nq_result *result)
{
	return write_op(c, NQ_OP_DELETE, key, key_bytes, 0, NULL, 0, how, result);
}

enum nq_error nq_cas(struct nq_client *c, const void *key, size_t key_bytes, uint64_t expected, const void *value,
		     size_t value_bytes, const struct nq_write *how, struct nq_result *result)
{
	return write_op(c, NQ_OP_CAS, key, key_bytes, expected, value, value_bytes, how, result);
}

enum nq_error nq_add(struct nq_client *c, const void *key, size_t key_bytes, int64_t delta, const struct nq_write *how,
		     struct nq_result *result)
{
	return write_op(c, NQ_OP_ADD, key, key_bytes, (uint64_t)delta, NULL, 0, how, result);
}

const char *nq_error_name(enum nq_error error)
{
	static const char *const names[] = {"ok",	"not_found",   "cas_failed", "outcome_unknown", "timeout",
					    "busy",	"full",	       "too_large",  "not_counter",	"bad_request",
					    "not_mine", "other_epoch", "no_chain",   "denied",		"system"};

	return error <= NQ_SYSTEM ? names[error] : "error";
}

/* Opening. */

static bool formed(const struct nq_client *c)
{
	bool any = false;

	for (uint32_t i = 0; c->map && i < c->map->chain_count; i++)
		any |= c->map->chains[i].epoch > 0;
	return any && (c->map->tags != TAGS_REQUIRED || c->has_keys);
}

/* Learns the cluster from its file or its controllers. Returns what is wrong. */
static const char *find_cluster(struct nq_client *c)
{
	const struct nq_options *o = &c->options;

	if (!!o->cluster == !!o->controllers)
		return "give either a cluster file or controllers";
	if (o->cluster) {
		char text[1 << 16];
		FILE *file = fopen(o->cluster, "r");
		size_t count = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

		if (!count || count == sizeof(text) - 1) {
			snprintf(c->unreadable, sizeof(c->unreadable),
				 "the cluster file %.100s cannot be read (%s): start a chain with `netcraq up`, or "
				 "name another "
				 "file, or controllers",
				 o->cluster,
				 file && !ferror(file) ? (count ? "it is too long" : "it is empty") : strerror(errno));
			if (file)
				fclose(file);
			return c->unreadable;
		}
		fclose(file);
		text[count] = 0;
		return parse_file(c, text);
	}
	for (const char *p = o->controllers; *p;) {
		size_t count = strcspn(p, ",");

		if (count == 0 || count > ADDR_BYTES - 8 || !append(&c->sources, p, count) ||
		    !append(&c->sources, "", 1))
			return "controllers: addresses with commas between them are wanted";
		p += count + (p[count] == ',');
	}
	return NULL;
}

struct nq_client *nq_open(const struct nq_options *options, char *error, size_t error_bytes)
{
	struct nq_client *c = calloc(1, sizeof(*c));
	const char *wrong = c ? NULL : "no memory";
	double end;

	if (!c) {
		snprintf(error, error_bytes, "%s", wrong);
		return NULL;
	}
	c->options = *options;
	c->map_stream.fd = c->key_stream.fd = c->udp = -1;
	c->timeout = options->timeout_ms ? options->timeout_ms / 1000.0 : 1;
	c->attempt = options->attempt_ms ? options->attempt_ms / 1000.0 : 0.05;
	snprintf(c->read_from, sizeof(c->read_from), "%s", options->read_from ? options->read_from : "nearest");
	c->next_id = random_id();
	c->pid = getpid();
	c->apart = clock_of(CLOCK_REALTIME) - clock_of(CLOCK_BOOTTIME);
	wrong = open_socket(c);
	if (!wrong && !known_policy(c->read_from))
		wrong = "read_from is nearest, spread, tail or node:NAME";
	if (!wrong)
		wrong = find_cluster(c);
	c->follows = c->sources.count > 0;
	for (end = now_is() + c->timeout; !wrong && c->follows && !formed(c);) {
		if (now_is() >= end)
			wrong = c->map_stream.failure[0] ? c->map_stream.failure : "no map of the cluster in time";
		await(c, 0.05);
	}
	if (!wrong)
		return c;
	snprintf(error, error_bytes, "%s", wrong);
	nq_close(c);
	return NULL;
}

void nq_close(struct nq_client *c)
{
	if (!c)
		return;
	close_stream(c, &c->map_stream, NULL);
	close_stream(c, &c->key_stream, NULL);
	if (c->udp >= 0)
		close(c->udp);
	free(c->map_stream.in.at);
	free(c->map_stream.body.at);
	free(c->key_stream.in.at);
	free(c->key_stream.body.at);
	free(c->sources.at);
	free(c->sessions);
	free(c->nodes);
	free_map(c->map);
	free(c);
}
