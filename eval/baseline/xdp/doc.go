// Package xdp runs the papers' protocols in the kernel: NetChain (eval/bpf/baseline/netchain.bpf.c) and
// NetCRAQ as published (eval/bpf/baseline/netcraqpaper.bpf.c), with the configuration of their control
// planes. They share frames, routing and multicast with NetCRAQ's own program, so that a
// comparison of speeds compares protocols. Their behaviour is that of
// eval/baseline/netchain and eval/baseline/netcraqpaper; [NetChainTarget] and
// [NetCRAQPaperTarget] check the bytecode against these.
package xdp
