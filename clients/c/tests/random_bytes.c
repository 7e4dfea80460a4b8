/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes in the place of everything that comes from a network or a file, under the sanitizers. */
#include "../netcraq.c"

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

/* Returns random bytes, or some with a few changed, or a part of them; in memory of exactly their size. */
static uint8_t *changed(const void *content, size_t *count)
{
	size_t n = draw(5) ? *count : draw(200);
	uint8_t *out = malloc(n ? n : 1);

	for (size_t i = 0; i < n; i++)
		out[i] = n == *count ? ((const uint8_t *)content)[i] : (uint8_t)draw(256);
	for (uint64_t i = draw(4); n && i; i--)
		out[draw(n)] = (uint8_t)draw(256);
	*count = draw(3) ? n : draw(n + 1);
	return realloc(out, *count ? *count : 1);
}

static const char file[] = "epoch: 1\nshards: 4\nnodes:\n    - name: n1\n      addr: 127.0.0.1:1\n"
			   "    - {name: n2, addr: 127.0.0.1:2}\nchains:\n    - - n1\n      - n2\n    - [n2, n1]\n";

/* A map of two nodes and a chain, and keys, as controllers send them. */
static const char map[] = "\x08\x01\x12\x01"
			  "c\x18\x02"
			  "\x22\x16\x08\x01\x12\x02n1\x1a\x0e"
			  "127.0.0.1:4411"
			  "\x22\x16\x08\x02\x12\x02n2\x1a\x0e"
			  "127.0.0.2:4411"
			  "\x2a\x0c\x08\x01\x12\x02\x01\x02\x2a\x04\x00\x00\x00\x01"
			  "\x32\x0e"
			  "127.0.0.3:4413";
static const char keys[] = "\x08\x01\x12\x26\x08\x01\x12\x10"
			   "0123456789abcdef"
			   "\x1a\x10"
			   "0123456789abcdef";

static struct nq_client *client(void)
{
	struct nq_client *c = calloc(1, sizeof(*c));

	c->map_stream.fd = c->key_stream.fd = c->udp = -1;
	return c;
}

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "%s\n", what);
		exit(1);
	}
}

static void try_file(const uint8_t *content, size_t count, bool must)
{
	struct nq_client *c = client();
	char *text = malloc(count + 1);
	const char *wrong;

	memcpy(text, content, count);
	text[count] = 0;
	wrong = parse_file(c, text);
	check(!must || (!wrong && c->map->chain_count == 2 && c->map->chains[1].count == 2), "the file was not read");
	free(text);
	nq_close(c);
}

static void try_map(struct nq_client *c, const uint8_t *content, size_t count)
{
	decode_map(c, content, count);
	decode_keys(c, content, count);
}

/* Gives a stream its bytes frame by frame, as read_stream does. */
static void try_frames(struct nq_client *c, const uint8_t *content, size_t count)
{
	while (count >= 9) {
		size_t length = (size_t)get(content, 3);
		uint8_t *whole;
		const char *wrong;

		if (length > 1 << 14 || count < 9 + length || content[3] == 4 || content[3] == 6)
			break;
		whole = malloc(9 + length);
		memcpy(whole, content, 9 + length);
		wrong = take_frame(c, &c->map_stream, whole, length);
		free(whole);
		if (wrong)
			break;
		content += 9 + length;
		count -= 9 + length;
	}
	c->map_stream.body.count = 0;
}

static void try_datagram(const struct keys *k, uint8_t *m, size_t count)
{
	struct sockaddr_in from = {0};
	struct reply r;

	if (open_answer((int)draw(4), draw(2) ? k : NULL, &from, m, &count))
		decode_reply(m, count, &r);
}

int main(int argc, char **argv)
{
	struct nq_client *c = client();
	struct bytes frames = {0}, message = {0};
	uint8_t reply[NQ_VERSION_BYTES + 8 + NQ_TRAILER_BYTES] = {0}, sip[16], input[15];
	struct sockaddr_in from = {0};
	int rounds = argc > 1 ? atoi(argv[1]) : 20000;

	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : random_id();
	printf("NETCRAQ_SEED=%llu\n", (unsigned long long)seed);
	for (int i = 0; i < 16; i++)
		sip[i] = (uint8_t)i;
	memcpy(input, sip, sizeof(input));
	check(siphash(sip, input, sizeof(input)) == 0xa129ca6149be45e5, "SipHash differs from its paper");
	try_file((const uint8_t *)file, sizeof(file) - 1, true);
	check(!decode_map(c, (const uint8_t *)map, sizeof(map) - 1) && c->map->node_count == 2, "the map was not read");
	check(!decode_keys(c, (const uint8_t *)keys, sizeof(keys) - 1) && c->keys.of[0].has_write,
	      "the keys were not read");
	append(&message, "\0\0\0\0", 4);
	append(&message, (uint8_t[]){sizeof(map) - 1}, 1);
	append(&message, map, sizeof(map) - 1);
	frame(&frames, 0, 0, 1, message.at, 40);
	frame(&frames, 0, 0, 1, message.at + 40, message.count - 40);
	frame(&frames, 1, 5, 1,
	      "\x40\x88\x9a\xca\xc8\xb2\x12\x34\xda\x8f\x01"
	      "7",
	      12);
	set(reply, 2, NQ_MAGIC);
	reply[NQ_BASE_VERSION_AT] = NQ_WIRE_VERSION;
	reply[NQ_BASE_OP_AT] = NQ_OP_REPLY;
	add_tag(&c->keys, &from, reply, NQ_VERSION_BYTES + 8);
	for (int i = 0; i < rounds; i++) {
		const void *contents[] = {file, map, keys, frames.at, reply};
		size_t counts[] = {sizeof(file) - 1, sizeof(map) - 1, sizeof(keys) - 1, frames.count, sizeof(reply)};
		int kind = (int)draw(5);
		size_t count = counts[kind];
		uint8_t *content = changed(contents[kind], &count);

		if (kind == 0)
			try_file(content, count, false);
		else if (kind == 3)
			try_frames(c, content, count);
		else if (kind == 4)
			try_datagram(&c->keys, content, count);
		else
			try_map(c, content, count);
		free(content);
		if (c->node_count > 1000) { /* names and addresses that were changed */
			nq_close(c);
			c = client();
		}
	}
	nq_close(c);
	free(frames.at);
	free(message.at);
	return 0;
}
