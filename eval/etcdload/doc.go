// Package etcdload sends requests to servers of etcd's API, each client the next one when it has its answer, and measures the answers.
package etcdload
