package proxy

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestSplitTransactionsAreChecked: a transaction that is executed beside the gateways' own keys, in more operations than the client
// sent, is refused if etcd refuses it as it is.
func TestSplitTransactionsAreChecked(t *testing.T) {
	etcd := startEtcd(t)
	plain := open(t, startEtcd(t))
	gateways := map[string]*clientv3.Client{
		"without a cache": open(t, startGateway(t, Options{Endpoints: []string{etcd}})),
		"with a cache":    startCached(t, etcd, startChain(t, 3, 4), Cache{}).client,
	}
	everything := clientv3.WithRange("\x00")
	for name, ops := range map[string][]clientv3.Op{
		"a put of a deleted key": {clientv3.OpDelete("\x00", everything), clientv3.OpPut("k", "1")},
		"a put of a deleted key, nested": {
			clientv3.OpDelete("\x00", everything), clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("k", "1")}, nil),
		},
		// Split, the deletion is in a transaction behind the put, and etcd compares a nested put only with deletions in
		// transactions before it.
		"a nested put before its deletion": {
			clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("k", "1")}, nil),
			clientv3.OpDelete("\x00", clientv3.WithRange("\xff")),
		},
		"two puts of a key": {clientv3.OpGet("\x00", everything), clientv3.OpPut("k", "1"), clientv3.OpPut("k", "2")},
		"nothing is wrong":  {clientv3.OpGet("\x00", everything), clientv3.OpPut("k", "1")},
	} {
		_, want := plain.Txn(t.Context()).Then(ops...).Commit()
		for gateway, c := range gateways {
			if _, err := c.Txn(t.Context()).Then(ops...).Commit(); (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
				t.Errorf("%s, %s: %v; etcd: %v", name, gateway, err, want)
			}
		}
	}
}
