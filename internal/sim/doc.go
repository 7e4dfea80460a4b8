// Package sim runs a whole chain in one goroutine, from one seed: nodes of internal/chain, clients that retry, a network
// that loses, repeats and reorders, nodes that crash or are wrongly suspected, and the repair of the chain (C1, C2).
//
// Every step the invariants of spec/protocol.md are checked; at the end the clients' history is given to
// internal/history. The same [Config] gives the same run, step by step, so a seed is a bug report.
package sim
