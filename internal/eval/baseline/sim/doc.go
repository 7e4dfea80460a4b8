// Package sim runs the papers' protocols, and this project's beside them, on a network that loses, repeats and delays packets,
// in one goroutine and from one seed, and makes a short counterexample of what goes wrong.
//
// A seed gives a workload and a fate to the n-th packet on every link, whatever the packet says, so that the same seed is the
// same weather for all protocols. Clients repeat what was not answered for 50 ms, as the papers' clients do. When they are done,
// the faults end, what is under way arrives, and a last client reads and writes each key at every node. [Judge] says what a
// strongly consistent store would not have shown; [Shrink] leaves out operations and faults as long as it still shows.
package sim
