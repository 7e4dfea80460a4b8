package connect_test

import (
	"context"
	"fmt"
	"log"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/client/telemetry"
)

// A client of the cluster that the environment names, as `netcraq get` finds it, with a span for each operation.
func Example() {
	observe, err := telemetry.New(telemetry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	c, err := connect.Open(ctx, connect.Options{Client: client.Options{Observe: observe}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	lock, err := c.TryLock(ctx, "job", client.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	fmt.Println("fencing token", lock.Token())
}
