package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrAway says that no agent listens.
var ErrAway = errors.New("no agent that serves pods runs on this machine")

// askWithin is how long an agent may take to look at the records: it attaches programs that are loaded already.
const askWithin = 10 * time.Second

// question names the interface that the caller wants to know of; the agent looks at all.
type question struct {
	Container string `json:"container"`
	Interface string `json:"interface"`
}

func (r *Record) question() question { return question{r.Container, r.Interface} }

// Answer is how the agent serves an interface.
type Answer struct {
	Mode  string `json:"mode,omitempty"` // "native" or "generic"; empty: not served
	Why   string `json:"why,omitempty"`  // why the mode is not native
	Error string `json:"error,omitempty"`
}

// Ask tells the agent to look at the records, and returns how it serves an interface. The error is [ErrAway] if no agent
// listens.
func (d Dir) Ask(ctx context.Context, container, ifname string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", d.socket())
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return Answer{}, ErrAway
	}
	if err != nil {
		return Answer{}, fmt.Errorf("asking the agent: %w", err)
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	var a Answer
	err = errors.Join(conn.SetDeadline(deadline), json.NewEncoder(conn).Encode(question{container, ifname}))
	if err == nil {
		err = json.NewDecoder(conn).Decode(&a)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("asking the agent: %w", err)
	}
	return a, nil
}
