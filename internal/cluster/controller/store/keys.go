package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/wire"
)

// keysRecord holds secrets: read access to the controllers' etcd allows everything. Secrets are in base 64, as in JSON.
type keysRecord struct {
	Version int         `json:"version"`
	Sign    uint32      `json:"sign"`
	Keys    []keyRecord `json:"keys"`
}

type keyRecord struct {
	Generation uint32 `json:"generation"`
	Read       []byte `json:"read"`
	Write      []byte `json:"write"`
	Chain      []byte `json:"chain"`
}

func recordOfKeys(k *wire.Keyring) keysRecord {
	r := keysRecord{Version: formatVersion, Sign: k.Sign}
	for _, keys := range k.Keys {
		r.Keys = append(r.Keys, keyRecord{keys.Generation, keys.Read[:], keys.Write[:], keys.Chain[:]})
	}
	return r
}

func (r *keysRecord) keyring() *wire.Keyring {
	k := &wire.Keyring{Sign: r.Sign}
	for _, keys := range r.Keys {
		k.Keys = append(k.Keys, wire.Keys{
			Generation: keys.Generation, Read: wire.SecretOf(keys.Read), Write: wire.SecretOf(keys.Write), Chain: wire.SecretOf(keys.Chain),
		})
	}
	return k
}

// StoreKeys replaces the keys, unless the leadership is over (ErrDeposed).
func (l *Leadership) StoreKeys(ctx context.Context, k *wire.Keyring) error {
	leader := l.store.key("leader")
	put := clientv3.OpPut(l.store.key("keys"), encode(recordOfKeys(k)))
	return l.store.retry(ctx, partWrite, func(try context.Context) error {
		response, err := l.store.client.Txn(try).If(clientv3.Compare(clientv3.ModRevision(leader), "=", int64(l.Term))).Then(put).Commit()
		if err == nil && !response.Succeeded {
			return ErrDeposed
		}
		return err
	})
}
