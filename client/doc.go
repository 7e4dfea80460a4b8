// Package client talks to a NetCRAQ cluster: Get, Put, Delete, CAS and Add on keys, each linearizable, over UDP.
//
// A [Client] is made from a cluster file, or from a [Follower] of a cluster that changes, and is safe for concurrent
// use. An operation ends within its context's deadline or, without one, within [Options].Timeout. If an attempt stays
// without an answer for longer than the node's answers usually take, and at most for [Options].Attempt, the client
// repeats it. It repeats a read at another node of the chain. While a chain is being repaired, writes of its keys wait,
// and the remaining nodes answer reads.
//
// # Writes happen once
//
// A write is retried with the same session and sequence number, which the chain orders at most once, even if the
// network loses, repeats or delays messages. If the client cannot learn the outcome of a write, it returns an
// [OutcomeUnknownError]: the write may have happened, may happen later, or never.
//
// # Where reads go
//
// Any node of the chain may answer a read; [Options].ReadFrom and the option [From] choose one. By default a read is
// linearizable wherever it is answered. [Any] and [Bounded] relax that for one read.
//
// # Many operations at once
//
// A single operation runs on the caller's goroutine over a socket of its own, for latency. If there are more concurrent
// callers than CPUs, and in [Client.Start], operations share one socket, for throughput. Callers of [Client.Do] share a
// socket for each CPU, at most four. Operations of one socket that wait for the same node travel in one datagram, a
// bundle, and their answers come back in bundles. No operation is delayed to fill a bundle. For the highest throughput,
// give Do hundreds of operations at a time on each CPU. Operations may be reordered.
//
// # Built from these
//
// [Client.Lock] is a lock with a fencing token and a time to live, [Client.Campaign] an election of a leader,
// [Client.Barrier] lets parties wait for each other, [Client.Counter] counts, and [Client.Sequencer] hands out numbers.
//
// # Related packages
//
// Package client/connect opens the cluster that flags or the NETCRAQ_* environment name, as the commands do;
// client/follow follows a cluster with controllers; client/telemetry makes OpenTelemetry spans and metrics of
// [Options].Observe.
package client
