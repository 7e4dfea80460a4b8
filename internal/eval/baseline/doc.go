// Package baseline is what the protocols of the papers have in common: packets as their nodes see them, and what a program
// that claims to be such a node is held to.
//
// The protocols themselves are below: netchain (chain replication in switches) and netcraqpaper (NetCRAQ as its papers describe
// it), pure state machines like internal/node/chain. spec/baselines.md says what they do and where the papers leave it open. They
// exist to be compared with, so they are built to the letter and lose what the papers' protocols lose.
package baseline
