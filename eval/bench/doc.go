// Package bench measures a node against the limits of the machine. An XDP program makes the
// requests: BPF_PROG_RUN sends them as live frames out of a veth. Another XDP program checks every
// answer on its way back. So neither sockets nor this process are part of the measurement. The same
// generator and counter also measure an XDP program that only swaps addresses, and an echo server
// on sockets.
//
// Everything runs in network namespaces without names. They, their links and their programs
// disappear with the process, however it ends.
package bench
