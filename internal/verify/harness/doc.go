// Package harness runs data planes for tests. Each type is a node as a [conformance.Target]: on
// sockets ([Soft]), or as the XDP program that the kernel executes on one frame at a time ([XDP]).
package harness
