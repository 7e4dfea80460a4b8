// Package migration copies an etcd while its clients use it. At the end it closes the etcd for them, so that the copy has
// every write that was acknowledged.
package migration
