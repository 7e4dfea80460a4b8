// Package core is the gateway as a pure state machine: requests, answers and directory changes in, calls and replies out.
//
// It has no I/O, clock, goroutine or randomness. The caller serialises calls, performs the [Effect] values that
// [Gateway.Effects] returns, in any order, and returns the result of each.
//
// # Parts
//
// etcd is the durable store. A chain holds cached [Object] values, one for each placed key, and the newest revision that
// any gateway has revealed. [Cell.Apply] executes each [Op] in the chain. A directory in etcd names the placed keys, with
// the generation of each object. A gateway has a session in etcd, under a lease, and a bit in objects.
//
// # The caller's duties
//
//   - A [ChainCall] that changes something is repeated, in one session of the chain's protocol, until it is answered, so
//     that a shard executes it at most once while it keeps its state. A read may be answered with [Away] instead.
//   - An [EtcdCall] is sent once. If its outcome is not known, the result says so.
//   - The session's lease is kept alive while the gateway lives, and dies with it.
//   - Directory changes are handed over in etcd's order, without gaps, from the revision that [WatchDirectory] names.
//
// # Guarantees
//
// Every reply is linearizable, its header included: header.revision never goes back in real time, over replies and watch
// deliveries, and a reply with header R shows exactly the newest write of its key up to R. Each [Rule] that is switched off
// breaks this; internal/verify/gatewaysim shows how. docs/gateway.md explains the rules.
package core
