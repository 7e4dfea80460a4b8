// Package kubernetes runs Kubernetes' own tests of its storage through the product's gateway for etcd, and with its members.
package kubernetes
