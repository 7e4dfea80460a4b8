/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to controllers with certificates, for programs that have OpenSSL (3.0 or later). */
#ifndef NETCRAQ_OPENSSL_H
#define NETCRAQ_OPENSSL_H

#include "netcraq.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a transport of an identity: a directory that `netcraq certs make` has made. Renewed files are used for the next
 * connection. false: error says why. */
bool nq_openssl_open(struct nq_transport *transport, const char *identity, char *error, size_t error_bytes);
/* Frees it, after the clients that use it. It may be zero. */
void nq_openssl_close(struct nq_transport *transport);

#ifdef __cplusplus
}
#endif
#endif
