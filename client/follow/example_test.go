package follow_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/follow"
)

// A client of a cluster with controllers. Package client/connect does the same from the environment.
func Example() {
	identity, err := follow.LoadIdentity(os.Getenv("NETCRAQ_IDENTITY")) // an empty name: no encryption
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	follower, err := follow.Open(ctx, follow.Options{
		Addrs:    []string{"127.88.0.1", "127.88.0.2", "127.88.0.3:4413"},
		Identity: identity,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer follower.Close()
	c, err := client.New(client.Options{Follow: follower})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	sum, err := c.Counter("visits").Add(ctx, 1)
	fmt.Println(sum, err)
}
