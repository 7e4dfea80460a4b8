// Command go does with etcd's own client what every program wants: configuration, presence, a lock, an election and a
// counter. Run it with the address of a gateway and one of these words.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

var tasks = map[string]func(context.Context, *clientv3.Client) (any, error){
	"config": config, "presence": presence, "lock": lock, "election": election, "counter": counter,
}

func main() {
	if len(os.Args) != 3 || tasks[os.Args[2]] == nil {
		log.Fatal("usage: go HOST:PORT config|presence|lock|election|counter")
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}})
	if err != nil {
		log.Fatal(err)
	}
	result, err := tasks[os.Args[2]](context.Background(), c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result)
}

// config reads settings, and hears of every change.
func config(ctx context.Context, c *clientv3.Client) (any, error) {
	if _, err := c.Put(ctx, "config/colour", "blue"); err != nil {
		return nil, err
	}
	now, err := c.Get(ctx, "config/", clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := c.Watch(ctx, "config/", clientv3.WithPrefix(), clientv3.WithRev(now.Header.Revision+1))
	if _, err := c.Put(ctx, "config/colour", "green"); err != nil { // as another program does
		return nil, err
	}
	change := <-changes
	return fmt.Sprintf("%s, then %s", now.Kvs[0].Value, change.Events[0].Kv.Value), change.Err()
}

// presence is a key that lives as long as its program keeps the session alive.
func presence(ctx context.Context, c *clientv3.Client) (any, error) {
	s, err := concurrency.NewSession(c, concurrency.WithTTL(2))
	if err != nil {
		return nil, err
	}
	put, err := c.Put(ctx, "online/alice", "", clientv3.WithLease(s.Lease()))
	if err != nil {
		return nil, err
	}
	s.Orphan() // as if the program had ended
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := <-c.Watch(ctx, "online/", clientv3.WithPrefix(), clientv3.WithRev(put.Header.Revision+1))
	return fmt.Sprintf("%s %v", gone.Events[0].Kv.Key, gone.Events[0].Type), gone.Err()
}

// lock has several programs change one value, one after the other.
func lock(ctx context.Context, c *clientv3.Client) (any, error) {
	if _, err := c.Delete(ctx, "account"); err != nil {
		return nil, err
	}
	err := together(5, func(int) error {
		s, err := concurrency.NewSession(c)
		if err != nil {
			return err
		}
		defer s.Close()
		m := concurrency.NewMutex(s, "lock/account")
		if err := m.Lock(ctx); err != nil {
			return err
		}
		balance, _, err := number(ctx, c, "account")
		if err == nil {
			_, err = c.Put(ctx, "account", strconv.Itoa(balance+1))
		}
		if err != nil {
			return err
		}
		return m.Unlock(ctx)
	})
	if err != nil {
		return nil, err
	}
	balance, _, err := number(ctx, c, "account")
	return balance, err
}

// election has bob wait until alice resigns.
func election(ctx context.Context, c *clientv3.Client) (any, error) {
	var leaders []string
	campaign := func(name string) (*concurrency.Election, error) {
		s, err := concurrency.NewSession(c)
		if err != nil {
			return nil, err
		}
		e := concurrency.NewElection(s, "leader/")
		if err := e.Campaign(ctx, name); err != nil {
			return nil, err
		}
		leader, err := e.Leader(ctx)
		if err == nil {
			leaders = append(leaders, string(leader.Kvs[0].Value))
		}
		return e, err
	}
	alice, err := campaign("alice")
	if err != nil {
		return nil, err
	}
	resigned := make(chan error, 1)
	go func() { resigned <- alice.Resign(ctx) }()
	bob, err := campaign("bob")
	if err != nil {
		return nil, err
	}
	if err := <-resigned; err != nil {
		return nil, err
	}
	return leaders, bob.Resign(ctx)
}

// counter has transactions succeed only if nobody else counted meanwhile.
func counter(ctx context.Context, c *clientv3.Client) (any, error) {
	if _, err := c.Delete(ctx, "visits"); err != nil {
		return nil, err
	}
	sums := make([]int, 10)
	err := together(len(sums), func(i int) error {
		for {
			before, revision, err := number(ctx, c, "visits")
			if err != nil {
				return err
			}
			done, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("visits"), "=", revision)).
				Then(clientv3.OpPut("visits", strconv.Itoa(before+1))).Commit()
			if err != nil {
				return err
			}
			if done.Succeeded {
				sums[i] = before + 1
				return nil
			}
		}
	})
	slices.Sort(sums)
	return sums, err
}

// number reads a number and the revision of its key; both are 0 if there is none.
func number(ctx context.Context, c *clientv3.Client, key string) (value int, revision int64, err error) {
	r, err := c.Get(ctx, key)
	if err != nil || len(r.Kvs) == 0 {
		return 0, 0, err
	}
	value, err = strconv.Atoi(string(r.Kvs[0].Value))
	return value, r.Kvs[0].ModRevision, err
}

// together runs functions side by side, and returns the first error.
func together(n int, each func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = each(i) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
