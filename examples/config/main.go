// Command config keeps settings in one value. `config NAME VALUE` changes one setting by compare-and-swap, so that no
// concurrent change is lost; `config` shows all of them, from the nearest node and at most 100 ms old; `config -watch`
// shows them again after each change.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
)

const key = "example/settings"

func main() {
	watch := flag.Bool("watch", false, "go on, and show changes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *watch, flag.Args()); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context, watch bool, args []string) error {
	c, err := connect.Open(ctx, connect.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	switch {
	case len(args) == 2:
		return set(ctx, c, args[0], args[1])
	case len(args) != 0:
		return errors.New("usage: config [-watch | NAME VALUE]")
	}
	for shown := uint64(0); ; {
		settings, version, err := read(ctx, c, client.Bounded(100*time.Millisecond))
		if err != nil {
			return err
		}
		if version != shown || !watch {
			show(settings, version)
		}
		if shown = version; !watch {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// set repeats a change that met another one.
func set(ctx context.Context, c *connect.Client, name, value string) error {
	for {
		settings, version, err := read(ctx, c)
		if err != nil {
			return err
		}
		settings[name] = value
		text, err := json.Marshal(settings)
		if err != nil {
			return err
		}
		_, err = c.CAS(ctx, key, version, text)
		var failed *client.CASFailedError
		if !errors.As(err, &failed) {
			return err
		}
	}
}

// read returns version 0 if nothing is stored.
func read(ctx context.Context, c *connect.Client, o ...client.ReadOption) (map[string]string, uint64, error) {
	settings := make(map[string]string)
	found, err := c.Get(ctx, key, o...)
	if errors.Is(err, client.ErrNotFound) {
		return settings, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	return settings, found.Version, json.Unmarshal(found.Value, &settings)
}

func show(settings map[string]string, version uint64) {
	fmt.Printf("version %d\n", version)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Printf("  %s = %s\n", name, settings[name])
	}
}
