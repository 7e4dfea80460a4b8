package kv

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/cluster/trace"
	"github.com/netcraq/netcraq/wire"
)

// show prints a result, and with --json also the details of an error. main prints the error itself.
func (r *kvRun) show(w io.Writer, result client.Result, where client.Location, err error) error {
	if r.flags.json {
		return cli.PrintJSON(w, r.object(result, where, err))
	}
	var text string
	switch {
	case err != nil:
	case r.raw:
		text = string(result.Value)
	case r.op == wire.OpRead:
		text = readable(result.Value) + "\n"
	case r.op == wire.OpAdd:
		n, _ := result.Counter()
		text = strconv.FormatInt(n, 10) + "\n"
	default:
		text = fmt.Sprintf("%s %s, version %d\n", done[r.op], readable([]byte(r.key)), result.Version)
	}
	if r.flags.trace && result.Node != "" {
		if text != "" {
			text += "\n"
		}
		text += drawTrace(r.op, result, where, err, cli.Colours(w))
	}
	_, writeErr := io.WriteString(w, text)
	return writeErr
}

var done = map[wire.Op]string{wire.OpPut: "stored", wire.OpDelete: "deleted", wire.OpCAS: "stored"}

// readable formats a value: printable text unchanged, other text in quotes, all else in hexadecimal.
func readable(value []byte) string {
	switch {
	case printable(value):
		return string(value)
	case len(value) == 8:
		r := client.Result{Value: value}
		n, _ := r.Counter()
		return fmt.Sprintf("0x%s (counter %d)", hex.EncodeToString(value), n)
	case utf8.Valid(value):
		return strconv.Quote(string(value))
	}
	return "0x" + hex.EncodeToString(value)
}

func printable(value []byte) bool {
	if !utf8.Valid(value) {
		return false
	}
	for _, c := range string(value) {
		if !unicode.IsPrint(c) && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// kvObject is the output with --json.
type kvObject struct {
	Op      string `json:"op"`
	Key     string `json:"key"`
	Status  string `json:"status"` // ok, not_found, cas_failed, outcome_unknown or error
	Error   string `json:"error,omitempty"`
	Version uint64 `json:"version"`

	Value       *string `json:"value,omitempty"` // only if it is UTF-8
	ValueBase64 *string `json:"value_base64,omitempty"`
	Counter     *int64  `json:"counter,omitempty"` // only of 8 bytes

	Shard uint16   `json:"shard"`
	Epoch uint32   `json:"epoch"`
	Chain []string `json:"chain"`

	Asked     string  `json:"asked,omitempty"`
	Node      string  `json:"node,omitempty"`
	Role      string  `json:"role,omitempty"`
	From      string  `json:"from,omitempty"`
	Hops      int     `json:"hops,omitempty"`
	Dirty     bool    `json:"dirty"`
	Attempts  int     `json:"attempts,omitempty"`
	ElapsedUs float64 `json:"elapsed_us,omitempty"`
}

func (r *kvRun) object(result client.Result, where client.Location, err error) kvObject {
	o := kvObject{
		Op: opName(r.op), Key: r.key, Status: statusName(err), Version: result.Version,
		Shard: where.Shard, Epoch: where.Epoch, Chain: where.Chain,
		Asked: result.Asked, Node: result.Node, Hops: result.Hops, Dirty: result.Dirty, Attempts: result.Attempts,
		ElapsedUs: float64(result.Elapsed.Nanoseconds()) / float64(time.Microsecond),
	}
	if result.Node != "" {
		o.Role, o.From = topology.RoleIn(where.Chain, result.Node), trace.State(r.op, result, err)
	}
	value := result.Value
	failed := new(client.CASFailedError)
	if errors.As(err, &failed) {
		value = failed.Value
	}
	if hasValue := (err == nil && (r.op == wire.OpRead || r.op == wire.OpAdd)) || len(value) > 0; hasValue {
		o.setValue(value)
	}
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

func (o *kvObject) setValue(value []byte) {
	encoded := base64.StdEncoding.EncodeToString(value)
	o.ValueBase64 = &encoded
	if utf8.Valid(value) {
		text := string(value)
		o.Value = &text
	}
	r := client.Result{Value: value}
	if n, ok := r.Counter(); ok {
		o.Counter = &n
	}
}

func opName(op wire.Op) string {
	if op == wire.OpRead {
		return "get"
	}
	return op.String()
}

func statusName(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, client.ErrNotFound):
		return wire.StatusNotFound.String()
	case errors.Is(err, client.ErrCASFailed):
		return wire.StatusCASFailed.String()
	case errors.Is(err, client.ErrOutcomeUnknown):
		return "outcome_unknown"
	}
	return "error"
}
