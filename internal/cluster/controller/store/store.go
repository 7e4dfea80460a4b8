package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/platform/retry"
)

// Options say where the state is kept.
type Options struct {
	Cluster   string      // name of the cluster in etcd, which may hold several
	Embedded  *Embedded   // run an etcd in this process; nil: use Endpoints
	Endpoints []string    // of an external etcd
	TLS       *tls.Config // towards Endpoints; nil: none
	TTL       int         // seconds that a leadership lasts without etcd; 0: a default
	Log       *slog.Logger
}

// root is the prefix of all keys.
const root = "/netcraq/"

const (
	// tryMin limits the first attempt of a call to etcd, tryMax the last one. Each may take twice as long as the one before.
	// etcd loses calls while it elects a leader, so the first attempts are short. All attempts can be repeated.
	tryMin = 200 * time.Millisecond
	tryMax = 5 * time.Second
	// calm is how long something may not work before that is trouble: longer than an election in etcd.
	calm = 2 * time.Second
	// pauseMin and pauseMax bound the time between two attempts.
	pauseMin = 20 * time.Millisecond
	pauseMax = time.Second
)

var clusterName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Store is one controller's access to the state.
type Store struct {
	prefix  string
	cluster string
	log     *slog.Logger
	client  *clientv3.Client
	server  *server // nil for an external etcd
	// embedded is how the member in this process was started.
	embedded *Embedded
	members  sync.WaitGroup // promote

	session *session
	stop    context.CancelFunc
	stopped chan struct{}
	closing sync.Once

	mu      sync.Mutex
	trouble map[string]string // by part: why it does not work at present
}

// Open begins to use an etcd. It does not wait for the etcd, but reports errors of this machine.
func Open(o Options) (*Store, error) {
	if !clusterName.MatchString(o.Cluster) {
		return nil, fmt.Errorf("cluster name %q: letters, digits, dots, dashes and underscores are wanted, at most 63", o.Cluster)
	}
	s := &Store{embedded: o.Embedded, prefix: root + o.Cluster + "/", cluster: o.Cluster, log: o.Log,
		trouble: map[string]string{}, stopped: make(chan struct{})}
	var err error
	if o.Embedded != nil {
		s.server, err = startServer(o.Embedded, o.Cluster, o.Log)
		if err == nil {
			s.client = s.server.client()
		}
	} else {
		s.client, err = newClient(o.Endpoints, o.TLS, o.Log)
	}
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.session = stop, &session{store: s, ttl: int64(cmp.Or(o.TTL, defaultTTL))}
	if s.server != nil {
		s.members.Go(func() { s.promote(ctx) })
	}
	go func() {
		defer close(s.stopped)
		s.session.keep(ctx)
	}()
	return s, nil
}

// pingEvery is the interval of keepalive pings to an etcd that is not in this process. etcd ends connections on which
// more than two pings come within 5 s of each other, or while no call is open; gRPC pings every 10 s at most. Calls that
// nobody acknowledges end a connection within pingWithin.
const (
	pingEvery  = 10 * time.Second
	pingWithin = time.Second
)

// newClient makes a client of an etcd that is not in this process.
func newClient(endpoints []string, tls *tls.Config, log *slog.Logger) (*clientv3.Client, error) {
	return clientv3.New(clientConfig(endpoints, tls, log))
}

func clientConfig(endpoints []string, tls *tls.Config, log *slog.Logger) clientv3.Config {
	return clientv3.Config{
		Endpoints: endpoints, TLS: tls, Logger: newZap(log, new(atomic.Bool)), DialKeepAliveTime: pingEvery,
		DialKeepAliveTimeout: pingWithin, BackoffWaitBetween: pauseMin,
	}
}

// Close gives up leadership, if this controller has it, and ends an embedded etcd. It may be called again.
func (s *Store) Close() (err error) {
	s.closing.Do(func() {
		s.stop()
		if s.server != nil && s.server.failure.happened() {
			return // what calls etcd may wait for ever
		}
		<-s.stopped
		s.members.Wait()
		if err = s.client.Close(); errors.Is(err, context.Canceled) {
			err = nil
		}
		if s.server != nil {
			s.server.close()
		}
	})
	return err
}

func (s *Store) key(name string) string { return s.prefix + name }

// Trouble returns the present problem with etcd, for operators; empty: there is none.
func (s *Store) Trouble() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, part := range []string{partWrite, partSession, partFollow, partKeyspaces} {
		if text := s.trouble[part]; text != "" {
			return text
		}
	}
	return ""
}

// Parts that may be in trouble.
const (
	partWrite   = "write"
	partSession = "session"
	partFollow  = "follow"
	// partKeyspaces is the watch of their records.
	partKeyspaces = "keyspaces"
)

// report notes how an attempt went, and logs when trouble begins and ends.
func (s *Store) report(part string, err error) {
	text := ""
	if err != nil {
		text = explain(err)
	}
	s.mu.Lock()
	before := s.trouble[part]
	s.trouble[part] = text
	s.mu.Unlock()
	switch {
	case text != "" && text != before:
		s.log.Warn("etcd is in trouble; the last state stays in force", "because", text)
	case text == "" && before != "":
		s.log.Info("etcd works again")
	}
}

// retry repeats an attempt until it succeeds, final says that no repetition can help, or ctx ends.
func (s *Store) retry(ctx context.Context, part string, attempt func(context.Context) error) error {
	begun, pauses := time.Now(), retry.Between(pauseMin, pauseMax)
	for limit := tryMin; ; limit = min(2*limit, tryMax) {
		try, cancel := context.WithTimeout(ctx, limit)
		err := attempt(try)
		cancel()
		switch {
		case err == nil:
			s.report(part, nil)
			return nil
		case ctx.Err() != nil || final(err):
			return err
		case time.Since(begun) > calm || !passes(err):
			s.report(part, err)
		}
		if !pauses.Wait(ctx) {
			return ctx.Err()
		}
	}
}

// splitKey returns a key without the cluster's prefix.
func (s *Store) splitKey(key []byte) (kind, rest string) {
	kind, rest, _ = strings.Cut(strings.TrimPrefix(string(key), s.prefix), "/")
	return kind, rest
}
