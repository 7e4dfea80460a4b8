// Package follow keeps the newest map of a cluster that changes, for package client: which chain serves each shard.
//
// A [Follower] gets the map from one controller or node at a time, which sends every newer one by itself. When that
// source fails, or when a client says that the map seems old ([Follower.Stale]), others are asked too, and the first
// that has a newer map becomes the source. All controllers and nodes are as good as each other: a map's version says
// which is the newest.
package follow
