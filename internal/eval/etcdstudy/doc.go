// Package etcdstudy repeats what a study of etcd's scalability measured, on one machine: the throughput of transactions of clusters of 1
// to 11 members ([OpenHarness], [Members]), where the time of a put goes ([Pipeline]), and what it gains to put several into one
// transaction and to leave out those that a later one replaces ([Batching], [Batcher]).
//
// Every member is a process with the same share of a CPU, see [Share], as the study gave each a core of its own.
package etcdstudy
