// Package etcd runs etcd's own tests through the product's gateway.
package etcd
