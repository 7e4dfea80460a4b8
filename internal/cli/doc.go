// Package cli is shared by the commands of all programs. It has the exit statuses, the flags that name a cluster, output
// for people and for programs, and the calls of the programs that extend netcraq. The subpackages have the commands, one
// package for each group.
package cli
