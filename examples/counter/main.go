// Command counter adds to a number that many processes share. Every addition counts exactly once, whatever the network
// loses or repeats.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/netcraq/netcraq/client/connect"
)

func main() {
	times := flag.Int("times", 1, "additions of 1; 0 only shows the number")
	flag.Parse()
	if err := run(context.Background(), *times); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, times int) error {
	c, err := connect.Open(ctx, connect.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	visits := c.Counter("example/visits")
	for range times {
		if _, err := visits.Add(ctx, 1); err != nil {
			return err
		}
	}
	n, err := visits.Value(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("visits: %d\n", n)
	return nil
}
