package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/netcraq/netcraq/client"
)

func Example() {
	cluster, err := client.LoadCluster("/run/netcraq/cluster.yaml") // the file of `netcraq up`
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.New(client.Options{Cluster: cluster})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	written, err := c.Put(ctx, "greeting", []byte("hello"))
	switch {
	case errors.Is(err, client.ErrOutcomeUnknown):
		log.Fatal("read the key to see what became of the write: ", err)
	case err != nil:
		log.Fatal(err)
	}
	_, err = c.CAS(ctx, "greeting", written.Version, []byte("hello, world"))
	if failed := new(client.CASFailedError); errors.As(err, &failed) {
		fmt.Printf("somebody else wrote version %d: %q\n", failed.Version, failed.Value)
	}
	for _, r := range c.GetMany(ctx, []string{"greeting", "another"}, client.From(client.Spread)) {
		fmt.Printf("%q from %s in %v: %v\n", r.Value, r.Node, r.Elapsed, r.Err)
	}
}

func ExampleClient_Do() {
	cluster, err := client.LoadCluster("/run/netcraq/cluster.yaml")
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.New(client.Options{Cluster: cluster, Window: 1024})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ops := []client.Op{client.GetOp("config")}
	for i := range 500 {
		ops = append(ops, client.PutOp(fmt.Sprint("pod ", i), []byte("running")))
	}
	for i, o := range c.Do(context.Background(), ops) { // sent in a few dozen datagrams
		if o.Err != nil {
			fmt.Printf("operation %d: %v\n", i, o.Err)
		}
	}
}
