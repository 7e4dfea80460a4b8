package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/eval/bench"
)

// chainNodes is the number of copies of a lock in every system.
const chainNodes = 3

// patience bounds an operation of a healthy system.
const patience = 10 * time.Second

// netcraq is a chain of NetCRAQ nodes.
type netcraq struct {
	harness *bench.Sockets
	cluster *client.Cluster
	session func(c *client.Client, number int) Session
	how     string
}

// recordBytes is the capacity for the record of a lock with a time to live.
const recordBytes = 256

// openNetCRAQ starts the chain with capacity for the locks of all items.
func openNetCRAQ(
	ctx context.Context, o *OpenOptions, how string, valueBytes int, session func(*client.Client, int) Session,
) (System, error) {
	harness, err := bench.OpenSockets(ctx, bench.SocketOptions{
		NodeOptions: bench.NodeOptions{Plane: o.Plane, Mode: "auto", Keys: o.Items, ValueBytes: valueBytes},
		Nodes:       chainNodes,
	})
	if err != nil {
		return nil, err
	}
	return &netcraq{harness: harness, cluster: harness.Cluster(), session: session, how: how}, nil
}

// Session makes a client. Its first request runs in the clients' host, so that its sockets belong
// there.
func (n *netcraq) Session(ctx context.Context, number int) (Session, error) {
	c, err := client.New(client.Options{Cluster: n.cluster, Timeout: patience})
	if err != nil {
		return nil, err
	}
	key := lockName(0)
	err = n.harness.Do(func() error {
		alone := isThere(c.Get(ctx, key))
		if alone != nil {
			return alone
		}
		outcome := c.Do(ctx, []client.Op{client.GetOp(key)})[0]
		return isThere(outcome.Result, outcome.Err)
	})
	if err != nil {
		c.Close()
		return nil, err
	}
	return n.session(c, number), nil
}

// isThere accepts every answer to a read.
func isThere(_ client.Result, err error) error {
	if errors.Is(err, client.ErrNotFound) {
		return nil
	}
	return err
}

func (n *netcraq) Settings() []string {
	subject := n.harness.Subject()
	return []string{
		fmt.Sprintf("a chain of %d nodes on plane %s (%s), linked by veth pairs; each client has a UDP socket of its own",
			chainNodes, subject.Plane, subject.Mode),
		n.how,
	}
}

func (n *netcraq) Close() error { return n.harness.Close() }
