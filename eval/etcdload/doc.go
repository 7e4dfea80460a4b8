// Package etcdload sends requests to servers of etcd's API, and measures the answers. Each client sends its next request when
// it has an answer.
package etcdload
