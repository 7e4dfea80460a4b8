// Package admin is the operators' view of a cluster. It finds the leading controller, converts its answers to snapshots for
// people and scripts, and draws them.
package admin
