// Package proxy serves etcd's clients in front of an etcd cluster.
//
// Calls are passed on as they are: the bytes of messages, metadata, status and trailers, in order, in a stream of their own. So
// fields and RPCs that this release does not know work as well, and a client gets etcd's own errors. Each client's watch stream
// is a stream to etcd; all of them share the connections to its members.
//
// Answered here: the member list, if a URL is advertised, reflection, and the pages on HTTP.
package proxy
