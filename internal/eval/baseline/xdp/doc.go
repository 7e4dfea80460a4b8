// Package xdp is the papers' protocols in the kernel: NetChain (bpf/baseline/netchain.bpf.c) and NetCRAQ as published
// (bpf/baseline/netcraqpaper.bpf.c), with what their control planes install. They share frames, routing and multicast with NetCRAQ's own
// program, so that a comparison of speeds compares protocols. Their behaviour is that of internal/eval/baseline/netchain and
// internal/eval/baseline/netcraqpaper, to which [NetChainTarget] and [PublishedTarget] hold the bytecode.
package xdp
