// Package admin is what operators see of a cluster and ask of it: it finds the controller that leads, turns what that says into
// snapshots for people and scripts, and draws them.
package admin
