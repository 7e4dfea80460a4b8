// Package gatewaysim runs gateways of internal/gateway/core in one goroutine, from one seed, with a model of etcd and of the chain's
// cached objects, on a network that loses, repeats, delays and reorders.
//
// etcd is atomic; its answers may be lost and its requests executed late. What it executes on a member's own state,
// serializable reads and transactions without writes and linearizable reads, may be older than its newest. Its
// authentication is switched on and off in some worlds: then it refuses requests without a token and users' reads of
// the gateways' own keys, caches end, and writes pass by them. One that passes is executed within a bound, or not at
// all. A shard of the chain is atomic as long as it keeps its state, which internal/verify/sim shows of the real one;
// it may be away for a while (a reconfiguration), or lose everything. Gateways crash between any two effects, pause,
// and are cut off from etcd or from the chain. While one has no session, it writes and shows answers as long as nothing
// is placed. In some worlds etcd is restored from a backup of now or of before, after a time that is longer than a
// session lasts; its revision falls, or was raised. Gateways may not compare its history for a while. In others a
// client of etcd deletes keys of sessions, bits and acknowledgements whose leases last. It deletes no entry of the
// directory: ADR 0061.
//
// Every answer is checked at once against etcd's history. A request that began after a restore has to be answered from
// the history since; one that was under way then, from this one or from the one before, where it is checked in the same
// way. No revision of one history is compared with one of another: clients of etcd itself have that too.
//
//   - exact: a reply with header R shows the newest write of its key up to R, with its revisions;
//   - header: no header is below one that was revealed before the request began, in a reply or by a watch, nor above etcd's (a
//     serializable read may be older);
//   - twice: no transaction is applied twice;
//   - audit: no gateway takes a write of a gateway for one past the gateways. One that is, near the end of some runs, is noticed:
//     once all faults have ended for long no read shows an older version.
//
// Linearizability follows: order operations by their revision, writes before the reads that show them. The second check says that
// this order respects real time, the first that each read shows the last write before it.
package gatewaysim
