package leases

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// prefix is that of Kubernetes' node leases.
const prefix = "/registry/leases/kube-node-lease/"

// Of lease objects.
const (
	renewTimeDigits = 20
	objectTail      = `"}}`
)

// blanks fill lease objects up to their length.
var blanks = strings.Repeat(" ", 512)

// errLost: a lease object has neither the value that was acknowledged last nor that of a write of unknown outcome.
var errLost = errors.New("an acknowledged renewal is lost")

// node is a simulated node. One goroutine at a time renews its lease.
type node struct {
	mu       sync.Mutex
	key      string
	head     string          // of its objects
	revision int64           // of the lease object as last seen
	value    string          // acknowledged last
	maybe    map[string]bool // later writes of unknown outcome
	renewals int
}

func newNodes(count int) []*node {
	nodes := make([]*node, count)
	for i := range nodes {
		key := fmt.Sprintf("%snode-%06d", prefix, i)
		head := fmt.Sprintf(`{"kind":"Lease","metadata":{"name":%q},"spec":{"renewTime":"`, key)
		nodes[i] = &node{key: key, head: head, maybe: make(map[string]bool)}
	}
	return nodes
}

// renew replaces the lease object if it has not changed since the node saw it last.
func (n *node) renew(ctx context.Context, c *clientv3.Client, bytes int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	value := n.object(bytes)
	r, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(n.key), "=", n.revision)).
		Then(clientv3.OpPut(n.key, value)).Else(clientv3.OpGet(n.key)).Commit()
	if err != nil {
		n.maybe[value] = true
		return err
	}
	if r.Succeeded {
		n.saw(r.Header.Revision, value)
		return nil
	}
	for _, kv := range r.Responses[0].GetResponseRange().GetKvs() {
		if n.maybe[string(kv.Value)] { // an earlier write did take effect
			n.saw(kv.ModRevision, string(kv.Value))
			return nil
		}
	}
	return errLost
}

// object makes the next lease object. The load shares its CPUs with the stores, so an object takes little of them.
func (n *node) object(bytes int) string {
	n.renewals++
	var b strings.Builder
	b.Grow(max(bytes, len(n.head)+renewTimeDigits+len(objectTail)))
	b.WriteString(n.head)
	var digits [renewTimeDigits]byte
	for i, rest := len(digits)-1, n.renewals; i >= 0; i, rest = i-1, rest/10 {
		digits[i] = byte('0' + rest%10)
	}
	b.Write(digits[:])
	b.WriteString(objectTail)
	for b.Len() < bytes {
		b.WriteString(blanks[:min(len(blanks), bytes-b.Len())])
	}
	return b.String()
}

func (n *node) saw(revision int64, value string) {
	n.revision, n.value = revision, value
	clear(n.maybe)
}

// isLost reports whether the stored object, "" if there is none, has neither the value that was acknowledged last nor
// that of a write of unknown outcome.
func (n *node) isLost(stored string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return stored != n.value && !n.maybe[stored]
}

// countLost reads all lease objects and counts the nodes whose acknowledged renewal is lost.
func countLost(ctx context.Context, c *clientv3.Client, nodes []*node) (lost int64, err error) {
	const page = 500
	stored := make(map[string]string, len(nodes))
	for from := prefix; ; {
		r, err := c.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(page))
		if err != nil {
			return 0, fmt.Errorf("read the lease objects: %w", err)
		}
		for _, kv := range r.Kvs {
			stored[string(kv.Key)] = string(kv.Value)
		}
		if !r.More {
			break
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
	for _, n := range nodes {
		if n.isLost(stored[n.key]) {
			lost++
		}
	}
	return lost, nil
}
