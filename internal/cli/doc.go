// Package cli has what the commands of all programs share: exit statuses, flags that name a cluster, output for people and for
// programs, and the way from the product's program to those that extend it. The commands themselves are in the packages
// below, one for each group.
package cli
