// Command leader takes part in an election, leads for a while, and resigns. Run it several times at once: one leads at
// a time, each with a greater token than the leader before.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
)

func main() {
	name := flag.String("name", "me", "what others see of this candidate")
	term := flag.Duration("for", 3*time.Second, "time as leader")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *name, *term); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, name string, term time.Duration) error {
	c, err := connect.Open(ctx, connect.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	leader, err := c.Leader(ctx, "example/election")
	if err != nil {
		return err
	}
	if leader.Token > 0 {
		fmt.Printf("%s waits: %s leads with token %d\n", name, leader.Value, leader.Token)
	}
	leadership, err := c.Campaign(ctx, "example/election", name, client.LockOptions{TTL: 2 * time.Second})
	if err != nil {
		return err
	}
	fmt.Printf("%s leads with token %d\n", name, leadership.Token())
	select {
	case <-time.After(term): // the work of a leader
	case <-ctx.Done():
	case <-leadership.Done():
		return fmt.Errorf("the leadership is lost: %w", leadership.Err())
	}
	resign, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	fmt.Printf("%s resigns\n", name)
	return errors.Join(leadership.Resign(resign), c.Close())
}
