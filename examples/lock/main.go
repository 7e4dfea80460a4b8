// Command lock increments a number by a read and a write, which only a lock makes safe. Run it several times at once:
// no increment is lost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
)

func main() {
	times := flag.Int("times", 5, "increments")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *times); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, times int) error {
	c, err := connect.Open(ctx, connect.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	for range times {
		lock, err := c.Lock(ctx, "example/lock", client.LockOptions{Note: "examples/lock"})
		if err != nil {
			return err
		}
		n, err := increment(ctx, c)
		if err := errors.Join(err, lock.Err(), lock.Unlock(ctx)); err != nil {
			return err
		}
		fmt.Printf("token %d: the number is %d\n", lock.Token(), n)
	}
	return nil
}

// increment is called with the lock held. A job that takes longer also watches lock.Done, and passes lock.Token to what
// it writes to, so that a holder that was paused is refused.
func increment(ctx context.Context, c *connect.Client) (int, error) {
	n := 0
	found, err := c.Get(ctx, "example/number")
	switch {
	case errors.Is(err, client.ErrNotFound):
	case err != nil:
		return 0, err
	default:
		if n, err = strconv.Atoi(string(found.Value)); err != nil {
			return 0, err
		}
	}
	_, err = c.Put(ctx, "example/number", []byte(strconv.Itoa(n+1)))
	return n + 1, err
}
