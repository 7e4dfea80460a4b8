// Package membersim runs machines of internal/member/core in one goroutine, from one seed, with a model of etcd's
// replicated log and real nodes of a chain, on a network that loses, repeats, delays and reorders.
//
// The log is one list of committed entries. Members apply it late, many entries at a time, so a machine misses states
// as it does after a snapshot. A member that starts again begins with an older applied state and publishes plain
// attributes before it serves. A proposal is applied at once, late, or never; no proposal is applied twice, and a
// change of the members not after the life of its member. A read that asks the log (ReadIndex) needs a majority. The
// chain is that of internal/node/chain, two nodes for a shard; a shard that loses its state begins a new epoch with a
// higher floor of versions. Members crash, pause, are cut off, and are added and removed. Clocks drift by 2 % at
// most.
//
// Every answer is checked at once:
//
//   - stale: a linearizable answer has no revision below one that was shown, to anybody, before its request began,
//     and no state that is older than a change without a revision that was acknowledged before;
//   - exact: the member's own store has the revision of its header, which says what every key was then;
//   - stuck: after all faults, every member reads through the chain and nothing waits.
package membersim
