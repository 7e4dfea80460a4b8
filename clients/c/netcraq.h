/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of NetCRAQ: get, put, delete, cas and add on keys, each linearizable, over UDP. docs/languages.md says what
 * it shares with the clients in Go and Python.
 *
 * A client executes one operation at a time, on the caller's thread, and starts no thread: a program with several
 * threads makes one client for each. A write happens once, however often it is repeated.
 */
#ifndef NETCRAQ_H
#define NETCRAQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NQ_VALUE_MAX 1352 /* bytes of the longest value */
#define NQ_KEY_MAX 1024	  /* bytes of the longest key */

enum nq_error {
	NQ_OK,
	NQ_NOT_FOUND,	/* there is no such key */
	NQ_CAS_FAILED,	/* the version was another: see the result */
	NQ_UNKNOWN,	/* the write may have happened, may happen later, or never: see the result's cause */
	NQ_TIMEOUT,	/* no answer in time */
	NQ_BUSY,	/* a write of the key was under way, or the nodes may not answer */
	NQ_FULL,	/* no room for another object or session: the write has no effect */
	NQ_TOO_LARGE,	/* the value is longer than a message or than the node's cells */
	NQ_NOT_COUNTER, /* the value has not 8 bytes */
	NQ_BAD_REQUEST, /* the arguments, or the message as the node received it, break a rule */
	NQ_NOT_MINE,	/* the cluster file does not match the cluster */
	NQ_OTHER_EPOCH, /* the shard is in another epoch than the one that the write is restricted to */
	NQ_NO_CHAIN,	/* no node serves the key */
	NQ_DENIED,	/* the identity may not do this */
	NQ_SYSTEM,	/* the system refused a call, or the cluster cannot be opened */
};

/* The name of an error: "timeout". */
const char *nq_error_name(enum nq_error error);

/* Secure connections to controllers, made by the program's TLS library; netcraq_openssl.c has them for OpenSSL. */
struct nq_transport {
	/* Makes a blocking socket a secure connection with ALPN h2; NULL: it failed. */
	void *(*secure)(void *context, int fd, const char *host);
	/* As recv and send on a socket that does not block: -1 with EAGAIN. They leave the socket open. */
	ssize_t (*read)(void *connection, void *bytes, size_t count);
	ssize_t (*write)(void *connection, const void *bytes, size_t count);
	void (*close)(void *connection);
	void *context;
};

/* How to open a cluster. Zeros are the defaults; one of the first two is needed. */
struct nq_options {
	const char *cluster;		      /* path of a cluster file, as `netcraq` writes it */
	const char *controllers;	      /* addresses with commas */
	const struct nq_transport *transport; /* NULL: connections are open */
	unsigned timeout_ms;		      /* of an operation: 1000 */
	unsigned attempt_ms;		      /* longest wait before an operation is tried again: 50 */
	const char *read_from;		      /* "nearest", "spread", "tail" or "node:NAME" */
	const char *local;		      /* IPv4 address to send from */
};

/* How one read differs from others. */
struct nq_read {
	const char *from;    /* as nq_options.read_from */
	bool any;	     /* the newest version that the asked node knows */
	bool bounded;	     /* as any, at a node whose lease ran out less than bound_ms ago */
	unsigned bound_ms;   /* at most 65535 */
	unsigned timeout_ms; /* 0: as the client's */
};

/* How one write differs from others. */
struct nq_write {
	uint32_t in_epoch; /* the only epoch in which it may happen; 0: any */
	unsigned timeout_ms;
};

struct nq_result {
	enum nq_error error;  /* as the operation returns it */
	enum nq_error cause;  /* of NQ_UNKNOWN */
	enum nq_error before; /* the obstacle before a timeout; NQ_OK: none */
	uint64_t version;     /* read or written, or that failed a cas, or of the deletion */
	int64_t counter;      /* that add left */
	uint32_t epoch;	      /* the answering node's */
	unsigned attempts;
	bool value_unknown; /* of a cas that failed: another write has replaced the value */
	char node[64];	    /* that answered */
	char text[256];	    /* of the error, for people */
	size_t value_bytes;
	uint8_t value[NQ_VALUE_MAX + 1]; /* with a zero behind it */
};

struct nq_client;

/* Opens a cluster, and waits for its map. NULL: error says why. */
struct nq_client *nq_open(const struct nq_options *options, char *error, size_t error_bytes);
void nq_close(struct nq_client *client);

/* Reads a key. how may be NULL. */
enum nq_error nq_get(struct nq_client *c, const void *key, size_t key_bytes, const struct nq_read *how,
		     struct nq_result *result);
/* Stores a value. how may be NULL, as below. */
enum nq_error nq_put(struct nq_client *c, const void *key, size_t key_bytes, const void *value, size_t value_bytes,
		     const struct nq_write *how, struct nq_result *result);
/* Removes a key, whether it exists or not. */
enum nq_error nq_delete(struct nq_client *c, const void *key, size_t key_bytes, const struct nq_write *how,
			struct nq_result *result);
/* Stores a value if the key's version is the expected one; 0: if the key does not exist. */
enum nq_error nq_cas(struct nq_client *c, const void *key, size_t key_bytes, uint64_t expected, const void *value,
		     size_t value_bytes, const struct nq_write *how, struct nq_result *result);
/* Adds to a counter of 64 bits; a key that does not exist counts as 0. */
enum nq_error nq_add(struct nq_client *c, const void *key, size_t key_bytes, int64_t delta, const struct nq_write *how,
		     struct nq_result *result);

#ifdef __cplusplus
}
#endif
#endif
