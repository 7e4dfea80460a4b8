package kv

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/watch"
	"github.com/netcraq/netcraq/internal/cli"
)

// watchFlags are the command line of `netcraq watch`.
type watchFlags struct {
	cluster cli.ClusterFlags
	timeout time.Duration
	options watch.Options
	after   []string
	count   int
	json    bool
}

func newWatchCommand() *cobra.Command {
	flags := watchFlags{options: watch.Options{Least: watch.DefaultLeast, Most: watch.DefaultMost}}
	c := &cobra.Command{
		Use:   "watch KEY...",
		Short: "Follow keys: print the newest value after each change",
		Long: `Follow keys: print the newest value after each change, beginning with the present one, until Ctrl-C.

The chain sends no notices: this command reads the keys again and again. A key that changed several times between two reads
is printed once, with its newest value. --after KEY=VERSION, with the version that was printed last, goes on from there.

Cost: one message to the chain and its answer for each read. A key is read after --least when it has changed, then after
pauses that grow to --most: with the defaults 20 reads a second for a key that changes all the time, and one for a key that
does not. A node answers a million in a second and more. Keys that are due together share one datagram.`,
		Example: `  netcraq watch greeting
  netcraq watch config/a config/b --most 5s --json
  netcraq watch greeting --after greeting=17`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return runWatch(c, &flags, args) },
	}
	f := c.Flags()
	flags.cluster.Add(f)
	f.DurationVar(&flags.options.Least, "least", flags.options.Least, "shortest time between two reads of a key")
	f.DurationVar(&flags.options.Most, "most", flags.options.Most, "longest time between two reads of a key")
	f.StringArrayVar(&flags.after, "after", nil, "KEY=VERSION: print only changes of this key after a version; may be repeated")
	f.IntVar(&flags.count, "count", 0, "end after so many changes; 0: never")
	f.DurationVar(&flags.timeout, "timeout", client.DefaultTimeout, "time after which a read is given up and repeated")
	f.BoolVar(&flags.json, "json", false, "print one JSON object for each change, a line each")
	return c
}

// keys returns the watches that the command line asks for.
func (w *watchFlags) keys(names []string) ([]*watch.Key, error) {
	if w.options.Least <= 0 || w.options.Most < w.options.Least || w.timeout <= 0 || w.count < 0 {
		return nil, errors.New("--least and --timeout are positive, --most is at least --least, and --count is 0 or more")
	}
	versions := make(map[string]uint64)
	for _, after := range w.after {
		at := strings.LastIndexByte(after, '=')
		if at < 0 {
			return nil, fmt.Errorf("--after %q: want KEY=VERSION", after)
		}
		version, err := strconv.ParseUint(after[at+1:], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("--after %q: want KEY=VERSION", after)
		}
		versions[after[:at]] = version
	}
	var keys []*watch.Key
	for _, name := range names {
		if _, err := client.KeyOf(name); err != nil {
			return nil, err
		}
		if version, resumes := versions[name]; resumes {
			delete(versions, name)
			keys = append(keys, watch.After(name, version, w.options))
		} else {
			keys = append(keys, watch.New(name, w.options))
		}
	}
	for name := range versions {
		return nil, fmt.Errorf("--after names %q, which is not watched", name)
	}
	return keys, nil
}

func runWatch(cmd *cobra.Command, flags *watchFlags, names []string) error {
	keys, err := flags.keys(names)
	if err != nil {
		return cli.UsageError(err)
	}
	c, err := flags.cluster.Connect(cmd.Context(), client.Options{Timeout: flags.timeout})
	if err != nil {
		return err
	}
	defer c.Close()
	var failed error
	left := flags.count
	watch.Run(cmd.Context(), c, keys, func(e watch.Event) bool {
		failed = flags.print(cmd.OutOrStdout(), &e)
		left--
		return failed == nil && left != 0
	}, func(key string, err error) {
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "netcraq: %s is not read, and tried again: %v\n", cli.Printable(key), err)
		} else {
			fmt.Fprintf(cmd.ErrOrStderr(), "netcraq: %s is read again\n", cli.Printable(key))
		}
	})
	return failed
}

// watchObject is a line of the output with --json.
type watchObject struct {
	Key         string  `json:"key"`
	Version     uint64  `json:"version"`
	Deleted     bool    `json:"deleted"`
	Value       *string `json:"value,omitempty"` // only if it is UTF-8
	ValueBase64 *string `json:"value_base64,omitempty"`
	Back        bool    `json:"version_went_back,omitempty"`
}

func (w *watchFlags) print(out io.Writer, e *watch.Event) error {
	if w.json {
		o := watchObject{Key: e.Key, Version: e.Version, Deleted: e.Deleted, Back: e.Back}
		if !e.Deleted {
			text, encoded := string(e.Value), base64.StdEncoding.EncodeToString(e.Value)
			if o.ValueBase64 = &encoded; utf8.Valid(e.Value) {
				o.Value = &text
			}
		}
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(&o)
	}
	value := "deleted"
	if !e.Deleted {
		value = readable(e.Value)
	}
	note := ""
	if e.Back {
		note = " (the version went back: the shard lost its state, or was restored)"
	}
	_, err := fmt.Fprintf(out, "%s  version %d  %s%s\n", cli.Printable(e.Key), e.Version, value, note)
	return err
}
