// Package bench measures a node against what the machine itself can do. Requests are made in the kernel, by an XDP
// program that BPF_PROG_RUN sends as live frames out of a veth, and every answer is judged in the kernel on its way
// back, so that neither sockets nor this process are part of what is measured. The same generator and the same counter
// are pointed at an XDP program that only swaps addresses, and at an echo server on sockets.
//
// Everything happens in network namespaces without names: they, their links and their programs are gone when the
// process is, however it ends.
package bench
