package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/member/engine"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// socketName is a server's socket for operators, in the directory that etcd keeps for itself below its data directory.
const socketName = "netcraq.sock"

// Status is what a server tells operators.
type Status struct {
	State   string `json:"state"`   // that etcd's log gives to fast reads: off, joining or on
	View    string `json:"view"`    // empty: none
	Reading bool   `json:"reading"` // this server would ask the chain for a read now
	Free    bool   `json:"free"`    // no answer of this server waits for the chain
	// Out are the members of etcd's cluster that do not take part.
	Out     []string `json:"out,omitempty"`
	Version string   `json:"version"` // of this server's program
	// Others are the versions of the members that name another one, by their names.
	Others map[string]string `json:"other_versions,omitempty"`
}

// control serves an operator's requests on a socket in the data directory. Its rights are those of that directory.
type control struct {
	engine *engine.Engine
	log    *slog.Logger
}

// socketAt returns a short path of the socket in a data directory, and what has to be closed after its use. The kernel limits
// paths of sockets to 107 bytes.
func socketAt(dir string) (string, *os.File, error) {
	folder, err := os.Open(filepath.Join(dir, "member"))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), socketName), folder, nil
}

// serve begins to serve, until ctx ends.
func (c *control) serve(ctx context.Context, dir string) error {
	path, folder, err := socketAt(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // the socket of a server that was killed; etcd's lock says that no other runs
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // the path is valid in here only
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /off", c.set(true))
	mux.HandleFunc("POST /on", c.set(false))
	mux.HandleFunc("GET /status", c.status)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() {
		_ = server.Close() // the process ends
		_ = os.Remove(filepath.Join(dir, "member", socketName))
	})
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			c.log.Warn("netcraq etcd off, on and status do not reach this server any more", "reason", err)
		}
	}()
	return nil
}

func (c *control) set(off bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := c.engine.SetOff(r.Context(), off); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		// The state follows a moment later, unless etcd has no leader, or other members stay out.
		state := core.On
		if off {
			state = core.Off
		}
		ctx, cancel := context.WithTimeout(r.Context(), engine.DefaultTTL)
		defer cancel()
		for pauses := retry.Between(time.Millisecond, 50*time.Millisecond); c.engine.Status().State.Phase != state; {
			if !pauses.Wait(ctx) {
				break
			}
		}
		c.status(w, r)
	}
}

func (c *control) status(w http.ResponseWriter, _ *http.Request) {
	s := c.engine.Status()
	answer := Status{State: s.State.Phase.String(), Reading: s.Reading, Free: s.Free, Out: c.engine.Out()}
	answer.Version, answer.Others = c.engine.Versions()
	if s.State.View != 0 {
		answer.View = fmt.Sprintf("%016x", s.State.View)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client has gone
}

// ErrNotRunning says that no server with a chain serves on a data directory.
var ErrNotRunning = errors.New("no netcraq etcd with a chain serves on this data directory: none runs, or it has not " +
	"reached a majority of the members since its start")

// Ask asks the server that uses a data directory: "off" and "on" switch its fast reads, "status" shows them.
func Ask(ctx context.Context, dir, what string) (*Status, error) {
	path, folder, err := socketAt(dir)
	if err != nil {
		return nil, fmt.Errorf("the data directory: %w", err)
	}
	defer folder.Close()
	method := http.MethodPost
	if what == "status" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://server/"+what, http.NoBody)
	if err != nil {
		return nil, err
	}
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	defer c.CloseIdleConnections()
	answer, err := c.Do(r)
	var refused *net.OpError
	if errors.As(err, &refused) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNotRunning)
	}
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text := make([]byte, 256)
		n, _ := answer.Body.Read(text)
		return nil, fmt.Errorf("the server: %s", text[:n])
	}
	s := new(Status)
	return s, json.NewDecoder(answer.Body).Decode(s)
}
