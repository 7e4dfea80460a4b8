// Package client speaks to nodes of the papers' protocols over UDP sockets, one query at a time.
//
// Neither protocol has request numbers, so an answer is known by its port: a socket has one query out, and a socket that
// may yet get an answer to an earlier attempt is not used again. A query without an answer is sent again, which is what the papers have
// clients do; what that breaks (a write may happen twice) is the protocols' own.
package client
