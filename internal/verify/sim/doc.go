// Package sim runs whole clusters in one goroutine, from one seed: nodes of internal/node/chain or the bytecode of
// the XDP plane, agents and controllers with the logic of internal/cluster/reconfig, and clients that retry, on a
// network and clocks that do their worst.
//
// A lost history of a shard whose every copy was destroyed proves nothing; [Result].Lost counts such shards, and
// faults are drawn so that there are hardly any: chains of f+1 members survive f failures.
//
// Every step the invariants of spec/protocol.md are checked, as far as the step can have touched them; at the end the
// clients' history is given to internal/verify/history. The same [Config] gives the same run, step by step, so a seed
// is a bug report.
package sim
