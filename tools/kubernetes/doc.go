// Package kubernetes runs a real Kubernetes API server in front of the product's etcd gateway.
package kubernetes
