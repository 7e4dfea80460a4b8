package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
	"github.com/netcraq/netcraq/internal/keyspace/record"
)

func (c *cluster) recordOptions(known uint64) record.Options {
	return record.Options{
		Name: "one", Controllers: func() []string { return slices.Clone(c.addresses) }, Known: known,
		Dial: grpc.WithTransportCredentials(insecure.NewCredentials()),
	}
}

func (c *cluster) openRecord(known uint64) *record.Record {
	c.t.Helper()
	r, err := record.Open(c.soon(), c.recordOptions(known))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { r.Close() })
	return r
}

// claimed is a record in which a gateway prepares the next era.
func claimed(s driver.State, disks ...core.Disk) driver.State {
	s.Recovering, s.Next = s.Newest()+1, disks
	return s
}

// openRecords opens a record as several gateways at once.
func (c *cluster) openRecords(n int) []*record.Record {
	c.t.Helper()
	all := make([]*record.Record, n)
	var opening sync.WaitGroup
	for i := range all {
		opening.Go(func() {
			var err error
			if all[i], err = record.Open(c.soon(), c.recordOptions(0)); err != nil {
				c.t.Error(err)
			}
		})
	}
	if opening.Wait(); c.t.Failed() {
		c.t.FailNow()
	}
	for _, r := range all {
		c.t.Cleanup(func() { r.Close() })
		if r.ID() != all[0].ID() {
			c.t.Fatalf("two keyspaces of one name: %x, %x", r.ID(), all[0].ID())
		}
	}
	return all
}

// claims are those that the controllers acknowledged.
type claims struct {
	mu    sync.Mutex
	byEra map[uint64]int
}

// make claims some eras for a disk.
func (m *claims) make(c *cluster, r *record.Record, disk core.Disk, turns int) {
	for ctx := c.soon(); turns > 0; {
		s, version, err := r.Read(ctx)
		if err != nil {
			c.t.Error(err)
			return
		}
		next := claimed(s, disk)
		if _, swapped, err := r.Swap(ctx, version, next); err == nil && swapped { // else it may be in the record
			turns--
			m.mu.Lock()
			m.byEra[next.Recovering]++
			m.mu.Unlock()
		}
	}
}

// TestKeyspaceRecord: many gateways make one keyspace, and change its record by compare-and-set through any controller.
// One that watches hears of the changes. Meanwhile a controller goes and comes back.
func TestKeyspaceRecord(t *testing.T) {
	const gateways, turns = 4, 5
	c := newCluster(t, 3, slack())
	c.leader()
	all := c.openRecords(gateways)
	ctx, cancel := context.WithCancel(c.soon())
	seen := make(chan uint64, 1000)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		for ctx.Err() == nil {
			_ = all[0].Watch(ctx, func(s driver.State, _ uint64) { seen <- s.Newest() }) // it ends with its controller
		}
	})
	claims := claims{byEra: make(map[uint64]int)}
	var claiming sync.WaitGroup
	for i := range all {
		claiming.Go(func() { claims.make(c, all[i], core.Disk{Name: uint64(i + 1), Identity: 1}, turns) })
	}
	c.stopController(1)
	claiming.Wait()
	c.startController(1)
	for era, n := range claims.byEra {
		if n != 1 {
			t.Errorf("era %d was claimed %d times", era, n)
		}
	}
	s, _, err := all[1].Read(ctx)
	if err != nil || len(claims.byEra) != gateways*turns || s.Newest() < gateways*turns {
		t.Fatalf("%d claims, %+v, %v", len(claims.byEra), s, err)
	}
	for newest := uint64(0); newest < s.Newest(); {
		select {
		case newest = <-seen:
		case <-ctx.Done():
			t.Fatalf("the watch has seen era %d of %d", newest, s.Newest())
		}
	}
	c.eventually("the keyspace is in the status", func() bool {
		found := c.status().GetKeyspaces()
		return len(found) == 1 && found[0].GetName() == "one" && found[0].GetRecovering() == s.Newest()
	})
}

// TestKeyspaceRecordRefused: a keyspace is not made anew for a disk with content, a disk of another keyspace does not
// take part, and no record is stored that no recovery makes.
func TestKeyspaceRecordRefused(t *testing.T) {
	c := newCluster(t, 1, slack())
	c.leader()
	if _, err := record.Open(c.soon(), c.recordOptions(9)); !errors.Is(err, record.ErrGone) {
		t.Errorf("a disk of a keyspace that is not known: %v", err)
	}
	r := c.openRecord(0)
	if again := c.openRecord(r.ID()); again.ID() != r.ID() {
		t.Errorf("the number was %x, and is %x", r.ID(), again.ID())
	}
	if _, err := record.Open(c.soon(), c.recordOptions(r.ID()+2)); !errors.Is(err, record.ErrOther) {
		t.Errorf("a disk of another keyspace: %v", err)
	}
	s, version, err := r.Read(c.soon())
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*driver.State){
		"no recovery makes": func(s *driver.State) { s.Active = core.Era{Number: 1} },
		"is not valid":      func(s *driver.State) { s.Next = []core.Disk{{Name: 1, Identity: 1}} },
	} {
		next := s
		change(&next)
		if _, swapped, err := r.Swap(c.soon(), version, next); swapped || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v: want %q", swapped, err, want)
		}
	}
	if _, swapped, err := r.Swap(c.soon(), version+1, s); swapped || err != nil {
		t.Errorf("of another version: %v, %v", swapped, err)
	}
	if _, err := record.Open(c.soon(), record.Options{Name: "a/b"}); err == nil {
		t.Error("a name that no keyspace has")
	}
	if _, _, err := c.controllers[0].store.SetKeyspace(c.soon(), "two", 0, []byte(`{"name":"two","era":1}`)); err != nil {
		t.Fatal(err)
	}
	o := c.recordOptions(0)
	o.Name = "two"
	if _, err := record.Open(c.soon(), o); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("a record that is not valid: %v", err)
	}
}

// TestSecretsOfKeyspaces: only roles that may be a gateway's learn how gateways know each other.
func TestSecretsOfKeyspaces(t *testing.T) {
	k := &record.Keyspace{Name: "one", ID: 1, Secret: []byte("secret")}
	for _, role := range append([]security.Role{""}, security.Roles...) {
		may := role == "" || role == security.Operator || role == security.Admin
		if got := keyspaceFor(role, k).GetSecret(); may != (len(got) > 0) {
			t.Errorf("%q gets the secret %q", role, got)
		}
	}
}
