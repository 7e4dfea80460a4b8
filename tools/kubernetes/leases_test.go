package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// leaseGateways are the gateways that keep leases in the chain's memory. One of them is active.
var leaseGateways = []string{"192.0.2.10:23800", "192.0.2.10:23801"}

// answerLimit bounds a question to one of them.
const answerLimit = 10 * time.Second

// lease is what the test needs of a lease.
type lease struct {
	Metadata struct{ Name, Namespace, UID, ResourceVersion string }
	Spec     struct {
		HolderIdentity string
		RenewTime      time.Time
	}
}

func (l *lease) key() string {
	return "/registry/leases/" + l.Metadata.Namespace + "/" + l.Metadata.Name
}

// kubeLeases are the leases of the kubelets and of leader election, by their keys.
func (c *cluster) kubeLeases() map[string]lease {
	c.t.Helper()
	found := make(map[string]lease)
	for _, namespace := range []string{"kube-node-lease", "kube-system"} {
		var list struct{ Items []lease }
		text := c.kubectl("get", "leases", "--namespace", namespace, "--output=json")
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			c.t.Fatal(err)
		}
		for _, l := range list.Items {
			found[l.key()] = l
		}
	}
	return found
}

// expected are the keys of the leases that programs renew all the time.
func expected() []string {
	keys := []string{"/registry/leases/kube-system/kube-controller-manager", "/registry/leases/kube-system/kube-scheduler"}
	for n := range 4 {
		keys = append(keys, fmt.Sprintf("/registry/leases/kube-node-lease/machine-%d", n+1))
	}
	return keys
}

// awaitRenewals waits until all leases are renewed after a time.
func (c *cluster) awaitRenewals(after time.Time) (found map[string]lease) {
	c.t.Helper()
	c.await("renewals of all leases", func() error {
		found = c.kubeLeases()
		for _, key := range expected() {
			if !found[key].Spec.RenewTime.After(after) {
				return fmt.Errorf("%s: %+v", key, found[key])
			}
		}
		return nil
	})
	return found
}

// readySince is since when each node is ready. A node that was not ready for a moment has another time.
func (c *cluster) readySince() map[string]string {
	c.t.Helper()
	rows := c.kubectl("get", "nodes", "--output=jsonpath="+
		`{range .items[*]}{.metadata.name}{" "}{range .status.conditions[?(@.type=="Ready")]}{.status}{" since "}`+
		`{.lastTransitionTime}{end}{"\n"}{end}`)
	since := make(map[string]string)
	for row := range strings.Lines(rows) {
		name, is, _ := strings.Cut(strings.TrimSpace(row), " ")
		since[name] = is
	}
	return since
}

// stillReady checks that no node was other than ready.
func (c *cluster) stillReady(before map[string]string) {
	c.t.Helper()
	if after := c.readySince(); len(after) != 4 || !maps.Equal(before, after) {
		c.t.Errorf("nodes were not ready for a while: %v, and before %v", after, before)
	}
}

// leasesInMemory checks that the API server keeps its leases in the chain's memory, and ends the gateway that orders
// the writes of leases: nodes stay ready, no lease is lost, and no acknowledged change of one.
func (c *cluster) leasesInMemory() {
	c.t.Helper()
	ready, before := c.readySince(), c.awaitRenewals(time.Now())
	for _, addr := range leaseGateways {
		c.sameLeases(addr, before)
	}
	var killed time.Time
	c.countThrough("the gateway with the leases is killed", leases, func() {
		active := c.activeGateway()
		program := "netcraq gateway --memory " + active
		pid := c.machine("control").Programs[program]
		c.kill(pid)
		killed = time.Now()
		c.await("another active gateway", func() error {
			if is := c.activeGateway(); is == active && c.machine("control").Programs[program] == pid {
				return fmt.Errorf("%s is active", is)
			}
			return nil
		})
		c.awaitRenewals(killed)
		c.await(program+" is back", func() error {
			if now := c.machine("control").Programs[program]; now == 0 || now == pid {
				return fmt.Errorf("process %d", now)
			}
			_, err := askGateway(active)
			return err
		})
	})
	after := c.awaitRenewals(killed)
	for key, l := range before {
		now, ok := after[key]
		if !ok || now.Metadata.UID != l.Metadata.UID || now.Spec.RenewTime.Before(l.Spec.RenewTime) {
			c.t.Errorf("a lease was lost: %+v, now %+v", l, now)
		}
	}
	c.stillReady(ready)
}

// sameLeases checks that a gateway has the API server's leases, or later ones.
func (c *cluster) sameLeases(addr string, want map[string]lease) {
	c.t.Helper()
	client, err := dialGateway(addr)
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), answerLimit)
	defer cancel()
	found, err := client.Get(ctx, "/registry/leases/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		c.t.Fatalf("%s: %v", addr, err)
	}
	revisions := make(map[string]int64)
	for _, kv := range found.Kvs {
		revisions[string(kv.Key)] = kv.ModRevision
	}
	for _, key := range expected() {
		revision, err := strconv.ParseInt(want[key].Metadata.ResourceVersion, 10, 64)
		if err != nil || revisions[key] < revision {
			c.t.Errorf("%s: %s at the API server has revision %d (%v), and there %d", addr, key, revision, err, revisions[key])
		}
	}
}

func dialGateway(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: answerLimit})
}

func askGateway(addr string) (*clientv3.StatusResponse, error) {
	client, err := dialGateway(addr)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	return client.Status(ctx, addr)
}

// activeGateway returns the address of the gateway that orders writes of leases.
func (c *cluster) activeGateway() (active string) {
	c.t.Helper()
	c.await("an active gateway", func() error {
		for _, addr := range leaseGateways {
			if is, err := askGateway(addr); err == nil && is.Leader != 0 && is.Leader == is.Header.MemberId {
				active = addr
				return nil
			}
		}
		return fmt.Errorf("none of %v", leaseGateways)
	})
	return active
}

// leasesBack takes the leases out of the chain's memory, and checks that they are in etcd.
func (c *cluster) leasesBack() {
	c.t.Helper()
	ready := c.readySince()
	c.lab("leases", "etcd")
	is := c.status()
	if is.MemoryLeases {
		c.t.Errorf("leases are in the chain's memory: %+v", is)
	}
	for program := range c.machine("control").Programs {
		if strings.HasPrefix(program, "netcraq gateway --memory") {
			c.t.Errorf("%s runs", program)
		}
	}
	c.stillReady(ready)
}
