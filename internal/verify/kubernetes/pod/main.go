// Command pod is the program of the lab's pods. Without an argument it waits for a signal, as the first process of a
// sandbox does. With one it uses the chain, and prints what it saw as JSON.
//
//	netcraq-pod
//	netcraq-pod stable
//	netcraq-pod load CONTROLLER...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "netcraq-pod:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0:
		<-ctx.Done()
		return nil
	case args[0] == "stable" && len(args) == 1:
		return stable(ctx)
	case args[0] == "load" && len(args) > 1:
		return load(ctx, args[1:])
	}
	return fmt.Errorf("%q: want no argument, stable, or load with controllers", args)
}

// show prints one line of JSON.
func show(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }
