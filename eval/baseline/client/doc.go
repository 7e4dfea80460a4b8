// Package client sends queries to nodes of the papers' protocols over UDP sockets, one at a time.
//
// Neither protocol has request numbers, so the port identifies an answer: a socket has one
// outstanding query, and a socket that may still receive an answer to an earlier attempt is not
// used again. A query without an answer is sent again, as the papers' clients do. A write may
// therefore be applied twice; this is a property of the protocols.
package client
