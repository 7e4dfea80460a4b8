/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "netcraq_openssl.h"

static const char *path_of(char *to, size_t room, const char *dir, const char *name)
{
	snprintf(to, room, "%s/%s", dir, name);
	return to;
}

/* Adds the list of revoked certificates, if there is one. */
static bool add_revoked(SSL_CTX *context, const char *path)
{
	X509_STORE *store = SSL_CTX_get_cert_store(context);
	X509_CRL *list = NULL;
	FILE *file = fopen(path, "rb");
	bool ok;

	if (!file)
		return errno == ENOENT;
	list = d2i_X509_CRL_fp(file, NULL);
	fclose(file);
	ok = list && X509_STORE_add_crl(store, list) && X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
	X509_CRL_free(list);
	return ok;
}

/* Reads an identity; NULL: it is none. */
static SSL_CTX *load(const char *dir)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	char path[PATH_MAX];

	if (!context)
		return NULL;
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) &&
	    SSL_CTX_load_verify_locations(context, path_of(path, sizeof(path), dir, "ca.pem"), NULL) &&
	    SSL_CTX_use_certificate_chain_file(context, path_of(path, sizeof(path), dir, "cert.pem")) == 1 &&
	    SSL_CTX_use_PrivateKey_file(context, path_of(path, sizeof(path), dir, "key.pem"), SSL_FILETYPE_PEM) == 1 &&
	    SSL_CTX_set_alpn_protos(context, (const unsigned char *)"\x02h2", 3) == 0 &&
	    add_revoked(context, path_of(path, sizeof(path), dir, "revoked.crl")))
		return context;
	SSL_CTX_free(context);
	return NULL;
}

/* Reports whether a server has a role that serves maps, and the name by which it was called, if it has names. */
static bool believed(SSL *ssl, const char *host)
{
	X509 *cert = SSL_get1_peer_certificate(ssl);
	GENERAL_NAMES *names;
	char role[32] = "";
	bool ok;

	if (!cert)
		return false;
	X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_organizationalUnitName, role, sizeof(role));
	names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	ok = (!strcmp(role, "controller") || !strcmp(role, "node")) &&
	     (!names || X509_check_ip_asc(cert, host, 0) == 1 || X509_check_host(cert, host, 0, 0, NULL) == 1);
	GENERAL_NAMES_free(names);
	X509_free(cert);
	return ok;
}

static void *secure(void *dir, int fd, const char *host)
{
	const struct timeval patience = {.tv_usec = 500000}, forever = {0};
	SSL_CTX *context = load(dir);
	SSL *ssl = context ? SSL_new(context) : NULL;
	bool ok;

	SSL_CTX_free(context);
	if (!ssl)
		return NULL;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	ok = SSL_set_fd(ssl, fd) && SSL_connect(ssl) == 1 && believed(ssl, host);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof(forever));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof(forever));
	ERR_clear_error();
	if (ok)
		return ssl;
	SSL_free(ssl);
	return NULL;
}

static ssize_t result(SSL *ssl, int n)
{
	int error = n > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl, n);

	ERR_clear_error();
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
		errno = EAGAIN;
	else if (error != SSL_ERROR_NONE)
		errno = EIO;
	return n > 0 ? n : error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

static ssize_t read_some(void *ssl, void *bytes, size_t count)
{
	return result(ssl, SSL_read(ssl, bytes, (int)count));
}

static ssize_t write_some(void *ssl, const void *bytes, size_t count)
{
	return result(ssl, SSL_write(ssl, bytes, (int)count));
}

static void end(void *ssl)
{
	SSL_free(ssl);
}

bool nq_openssl_open(struct nq_transport *t, const char *identity, char *error, size_t error_bytes)
{
	SSL_CTX *context = load(identity);

	memset(t, 0, sizeof(*t));
	if (!context) {
		snprintf(error, error_bytes,
			 "%s is no identity: make some with `netcraq certs make`, and give one role's directory",
			 identity);
		return false;
	}
	SSL_CTX_free(context);
	*t = (struct nq_transport){secure, read_some, write_some, end, strdup(identity)};
	return t->context;
}

void nq_openssl_close(struct nq_transport *t)
{
	free(t->context);
	memset(t, 0, sizeof(*t));
}
