// Package soft is the data plane in Go: internal/node/chain behind a mutex, on one UDP socket. It needs no privilege,
// so it serves laptops and unprivileged containers, and the plane in the kernel is compared with it.
package soft
