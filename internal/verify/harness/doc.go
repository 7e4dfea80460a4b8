// Package harness holds data planes for tests: each of its types is a node as a [conformance.Target], on sockets ([Soft]) or as the
// XDP program that the kernel executes one frame at a time ([XDP]).
package harness
