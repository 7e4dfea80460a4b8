// Package objects keeps the cached objects of etcd's keys in a chain.
//
// An object is the value of an ordinary key of the chain, and an operation of internal/gateway/core changes it by a
// compare-and-set in one epoch of its shard: what was read in that epoch, at that version, is what is changed. So the chain
// executes operations one at a time, on every data plane, and none that was meant for a shard that lost its state.
// Operations of one gateway on one key that wait for each other share a compare-and-set.
package objects
