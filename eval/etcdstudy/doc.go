// Package etcdstudy repeats the measurements of a study of etcd's scalability on one machine: the
// throughput of transactions of clusters of 1 to 11 members ([OpenHarness], [Members]), the time
// of each stage of a put ([Pipeline]), and the gain of putting several keys in one transaction and
// leaving out overwritten ones ([Batching], [Batcher]).
//
// Every member is a process with the same share of a CPU, see [Share]; the study gave each member
// one core.
package etcdstudy
