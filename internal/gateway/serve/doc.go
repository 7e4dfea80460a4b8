// Package serve is the clients' side that both kinds of gateways share: the listener with TLS, the limit of
// connections, the choice between gRPC and HTTP/1, the HTTP server of pages and their limits.
package serve
