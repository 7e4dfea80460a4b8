package peer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/eval/peer/etcd"
)

// etcdConnections is the number of connections that clients share. Four gave the highest throughput
// on two cores: one connection serialises requests, many cost wake-ups.
const etcdConnections = 4

// etcdDial bounds the wait for a connection.
const etcdDial = 10 * time.Second

// etcdStore is a cluster of etcd members. Each is a process on its own host.
type etcdStore struct {
	*network
	clients []*clientv3.Client
	next    atomic.Uint32 // client
	lease   clientv3.LeaseID
	tokens  atomic.Uint64
	read    []clientv3.OpOption
}

func openEtcd(ctx context.Context, n *network, o *Options) (Store, error) {
	binary, err := etcd.Find()
	if err != nil {
		return nil, err
	}
	cluster := etcd.Options{Binary: binary, Members: n.hosts()}
	if cluster.Dir, err = n.directory(0); err != nil {
		return nil, err
	}
	for i := range n.hosts() {
		addr, host := n.host(i)
		cluster.Sites = append(cluster.Sites, etcd.Site{Addr: addr, Namespace: n.lab.NamespaceFile(host)})
	}
	c, err := etcd.Start(ctx, cluster)
	if err != nil {
		return nil, err
	}
	n.onClose(c.Stop)
	s := &etcdStore{network: n}
	if o.Stale {
		s.read = append(s.read, clientv3.WithSerializable())
	}
	if err := s.lead(ctx, c.Endpoints()); err != nil {
		return nil, err
	}
	if err := s.connect(ctx, c.Endpoints()[0], o.Connections); err != nil {
		return nil, err
	}
	s.describe(o)
	return s, nil
}

func (s *etcdStore) describe(o *Options) {
	s.detail("etcd: %d members, each a process, data in memory (tmpfs): fsync costs next to nothing; etcd's own defaults",
		s.hosts())
	s.detail("clients: clientv3, %d gRPC connections to the leader, which is next to the clients", len(s.clients))
	if o.Stale {
		s.detail("get: serializable Range: NOT linearizable, may be old")
	} else {
		s.detail("get: linearizable Range, etcd's default")
	}
	s.detail("compare-and-swap: one Txn that compares mod_revision, else gets")
	s.detail("lock: one Txn that puts the key with a lease of %v if it does not exist; unlock: one Txn that deletes "+
		"it if it is still ours", lockTTL)
}

func dialEtcd(endpoints ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: etcdDial, Logger: zap.NewNop()})
}

// lead makes the first member the leader.
func (s *etcdStore) lead(ctx context.Context, endpoints []string) error {
	ctx, cancel := context.WithTimeout(ctx, etcdDial)
	defer cancel()
	first, err := dialEtcd(endpoints[0])
	if err != nil {
		return err
	}
	defer first.Close()
	for {
		here, err := first.Status(ctx, endpoints[0])
		if err != nil {
			return err
		}
		if here.Leader == here.Header.MemberId {
			return nil
		}
		for _, endpoint := range endpoints[1:] {
			if err := handOver(ctx, endpoint, here.Header.MemberId); err != nil {
				return err
			}
		}
	}
}

// handOver moves the leadership to another member if the member at endpoint leads.
func handOver(ctx context.Context, endpoint string, to uint64) error {
	c, err := dialEtcd(endpoint)
	if err != nil {
		return err
	}
	defer c.Close()
	status, err := c.Status(ctx, endpoint)
	if err != nil || status.Leader != status.Header.MemberId {
		return err
	}
	_, err = c.MoveLeader(ctx, to)
	return err
}

// connect opens the clients and the lease of the locks.
func (s *etcdStore) connect(ctx context.Context, endpoint string, connections int) error {
	if connections == 0 {
		connections = etcdConnections
	}
	for range connections {
		c, err := dialEtcd(endpoint)
		if err != nil {
			return err
		}
		s.onClose(func() error { c.Close(); return nil }) // its error only reports that the connection is gone
		s.clients = append(s.clients, c)
	}
	lease, err := s.clients[0].Grant(ctx, int64(lockTTL/time.Second))
	if err != nil {
		return err
	}
	s.lease = lease.ID
	alive, err := s.clients[0].KeepAlive(context.Background(), s.lease)
	if err != nil {
		return err
	}
	go func() {
		for range alive { // ends with the client
		}
	}()
	return nil
}

func (s *etcdStore) client() *clientv3.Client {
	return s.clients[int(s.next.Add(1))%len(s.clients)]
}

func (s *etcdStore) Get(ctx context.Context, key string) ([]byte, error) {
	r, err := s.client().Get(ctx, key, s.read...)
	if err != nil {
		return nil, err
	}
	if len(r.Kvs) == 0 {
		return nil, ErrNotFound
	}
	return r.Kvs[0].Value, nil
}

func (s *etcdStore) Put(ctx context.Context, key string, value []byte) error {
	_, err := s.client().Put(ctx, key, string(value))
	return err
}

func (s *etcdStore) CompareAndSwap(ctx context.Context, key string, version Version,
	value []byte) (Version, bool, error) {
	r, err := s.client().Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", int64(version))).
		Then(clientv3.OpPut(key, string(value))).Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return 0, false, err
	}
	if r.Succeeded {
		return Version(r.Header.Revision), true, nil
	}
	if there := r.Responses[0].GetResponseRange().Kvs; len(there) > 0 {
		return Version(there[0].ModRevision), false, nil
	}
	return 0, false, nil
}

// etcdLock is a key that exists while the lock is held.
type etcdLock struct {
	store *etcdStore
	key   string
	token string // identifies this holder
}

func (s *etcdStore) Lock(ctx context.Context, name string) (Lock, error) {
	l := &etcdLock{s, "lock/" + name, strconv.FormatUint(s.tokens.Add(1), 10)}
	r, err := s.client().Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(l.key), "=", 0)).
		Then(clientv3.OpPut(l.key, l.token, clientv3.WithLease(s.lease))).Commit()
	if err != nil {
		return nil, err
	}
	if !r.Succeeded {
		return nil, ErrLocked
	}
	return l, nil
}

var errLockLost = errors.New("the lock was lost before it was released")

func (l *etcdLock) Unlock(ctx context.Context) error {
	r, err := l.store.client().Txn(ctx).If(clientv3.Compare(clientv3.Value(l.key), "=",
		l.token)).Then(clientv3.OpDelete(l.key)).Commit()
	if err == nil && !r.Succeeded {
		return fmt.Errorf("%s: %w", l.key, errLockLost)
	}
	return err
}
