package conformance

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
)

// kinds are the names of errors that drivers write, in the order in which an error lists them.
var kinds = []struct {
	name string
	err  error
}{
	{"outcome_unknown", client.ErrOutcomeUnknown}, {"not_found", client.ErrNotFound}, {"cas_failed", client.ErrCASFailed},
	{"timeout", client.ErrTimeout}, {"busy", client.ErrBusy}, {"full", client.ErrFull}, {"too_large", client.ErrTooLarge},
	{"not_counter", client.ErrNotCounter}, {"bad_request", client.ErrBadRequest}, {"not_mine", client.ErrNotMine},
	{"other_epoch", client.ErrOtherEpoch}, {"no_chain", client.ErrNoChain}, {"denied", client.ErrDenied},
}

// Drive is the driver of the Go client.
func Drive(in io.Reader, out io.Writer) error {
	var c *connect.Client
	encoder := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		given := make(map[string]string)
		for _, each := range strings.Fields(rest) {
			name, value, _ := strings.Cut(each, "=")
			given[name] = value
		}
		outcome := new(Outcome)
		var err error
		if word == "open" {
			if c != nil {
				err = c.Close()
			}
			if opened, e := open(given); e != nil {
				err = errors.Join(err, e)
			} else {
				c = opened
			}
		} else {
			outcome, err = execute(c, word, given)
		}
		if err != nil {
			outcome.fail(err)
		}
		if err := encoder.Encode(outcome); err != nil {
			return err
		}
	}
	if c == nil {
		return nil
	}
	return c.Close()
}

func open(given map[string]string) (*connect.Client, error) {
	o := connect.Options{File: given["cluster"], Identity: given["identity"]}
	if given["controllers"] != "" {
		o.Controllers = strings.Split(given["controllers"], ",")
	}
	o.Client.Attempt, o.Client.Timeout = milliseconds(given["attempt"]), milliseconds(given["timeout"])
	ctx, cancel := context.WithTimeout(context.Background(), max(o.Client.Timeout, 10*time.Second))
	defer cancel()
	return connect.Open(ctx, o)
}

func milliseconds(text string) time.Duration { return time.Duration(number(text)) * time.Millisecond }

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // the scenarios are right
	return n
}

// execute runs one operation.
func execute(c *connect.Client, word string, given map[string]string) (*Outcome, error) {
	ctx := context.Background()
	if given["timeout"] != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, milliseconds(given["timeout"]))
		defer cancel()
	}
	key, _ := hex.DecodeString(given["key"]) // the scenarios are right
	value, _ := hex.DecodeString(given["value"])
	if given["epoch"] != "" { // only operations of Do have that
		done := c.Do(ctx, []client.Op{client.PutOp(string(key), value).InEpoch(uint32(number(given["epoch"])))})
		return outcomeOf(word, done[0].Result), done[0].Err
	}
	result, err := single(ctx, c, word, string(key), value, given)
	return outcomeOf(word, result), err
}

// single runs an operation on a socket of its own.
func single(ctx context.Context, c *connect.Client, word, key string, value []byte, given map[string]string) (client.Result, error) {
	switch word {
	case "get":
		return c.Get(ctx, key, readOptions(given)...)
	case "put":
		return c.Put(ctx, key, value)
	case "delete":
		return c.Delete(ctx, key)
	case "cas":
		return c.CAS(ctx, key, uint64(number(given["expected"])), value)
	}
	return c.Add(ctx, key, number(given["delta"]))
}

func readOptions(given map[string]string) (options []client.ReadOption) {
	if _, ok := given["any"]; ok {
		options = append(options, client.Any())
	}
	if given["bounded"] != "" {
		options = append(options, client.Bounded(milliseconds(given["bounded"])))
	}
	switch from := given["from"]; {
	case from == "tail":
		options = append(options, client.From(client.Tail))
	case strings.HasPrefix(from, "node:"):
		options = append(options, client.From(client.Named(strings.TrimPrefix(from, "node:"))))
	}
	return options
}

func outcomeOf(word string, r client.Result) *Outcome {
	o := &Outcome{Version: r.Version, Node: r.Node, Epoch: r.Epoch, Attempts: r.Attempts}
	if word == "add" {
		o.Counter, _ = r.Counter()
	} else {
		o.Value = hex.EncodeToString(r.Value)
	}
	return o
}

func (o *Outcome) fail(err error) {
	o.Text = err.Error()
	for _, kind := range kinds {
		if errors.Is(err, kind.err) {
			o.Errors = append(o.Errors, kind.name)
		}
	}
	if len(o.Errors) == 0 {
		o.Errors = []string{"error"}
	}
	var failed *client.CASFailedError
	if errors.As(err, &failed) {
		o.Version, o.Value, o.ValueUnknown = failed.Version, hex.EncodeToString(failed.Value), failed.ValueUnknown
	}
}
