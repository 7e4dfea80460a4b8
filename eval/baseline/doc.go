// Package baseline has the parts that the papers' protocols share: packets as their nodes see
// them, and the checks that every implementation of such a node must pass.
//
// The protocols are in netchain (chain replication in switches) and netcraqpaper (NetCRAQ as its
// papers describe it). Both are pure state machines like internal/node/chain. eval/spec/baselines.md
// has their rules and the questions that the papers leave open. They are built to the letter for
// comparison, so they lose the same writes as the papers' protocols.
package baseline
