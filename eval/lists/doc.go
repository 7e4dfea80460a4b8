// Package lists measures how long consistent lists of a Kubernetes API server wait for its watch cache, with several
// stores.
package lists
