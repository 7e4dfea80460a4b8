// Package sim runs the papers' protocols, and this project's beside them, on a network that loses,
// repeats and delays packets, in one goroutine and from one seed. It makes a short counterexample
// of each violation.
//
// A seed defines a workload and the fate of the n-th packet on every link. The fate does not
// depend on the packet's content, so all protocols meet the same faults. Clients repeat a query
// after 50 ms without an answer, as the papers' clients do. When they are done, the faults end,
// packets in flight arrive, and a last client reads and writes each key at every node. [Judge]
// reports violations of strong consistency; [Shrink] removes operations and faults while the
// violation stays.
package sim
