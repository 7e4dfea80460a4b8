// Package gatewaycheck runs clients of etcd against gateways, or members of etcd that read through a chain,
// and checks everything that they are told against etcd's own history.
//
//   - exact: an answer with header R shows exactly the newest write of its key up to R, with its revisions;
//   - header: no header is below one that was revealed before the request began, by any server, in an answer or by a watch;
//   - once: a write that was acknowledged happened once, at the revision that was told; one of unknown outcome at most once;
//   - watch: events arrive in order, without gaps and without repetition;
//   - linearizable: each key's history is, by a second opinion that knows nothing of revisions.
package gatewaycheck
