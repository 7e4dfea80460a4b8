// Package p4 runs the nodes of the papers' protocols as P4 programs, on the software switch of
// internal/node/dataplane/p4. The programs are in eval/p4. It has targets that compare them with the
// state machines, one packet at a time, and nodes on network interfaces ([OpenNetChain], [OpenNetCRAQPaper]).
//
// A program has tables and registers of a fixed size, so a target supports a part of the configurations:
// see [Within] and [NetCRAQPaperTarget]. It declines all others with [baseline.ErrUnsupported].
package p4
