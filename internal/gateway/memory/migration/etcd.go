package migration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// AnswerTimeout is how long the etcd may take to answer, if [Options] do not say another time.
const AnswerTimeout = 10 * time.Second

// Options configure a migration.
type Options struct {
	Endpoints     []string      // of the etcd's members
	CA, Cert, Key string        // files; empty: none
	Dir           string        // of the etcd's snapshot, which is a file there until it is read
	Timeout       time.Duration // for the etcd's answers in each step; 0: [AnswerTimeout]
	Log           *slog.Logger
}

// ErrCertificate: the files of a certificate cannot be used.
var ErrCertificate = errors.New("the certificate towards the etcd")

// config is the configuration of clients.
func (o *Options) config() (c clientv3.Config, err error) {
	c = clientv3.Config{Endpoints: o.Endpoints, DialTimeout: o.Timeout, Logger: zap.NewNop()}
	info := transport.TLSInfo{TrustedCAFile: o.CA, CertFile: o.Cert, KeyFile: o.Key}
	if info.Empty() && o.CA == "" {
		return c, nil
	}
	if c.TLS, err = info.ClientConfig(); err != nil {
		err = fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	return c, err
}

// Etcd is an etcd that is copied.
type Etcd struct {
	o        Options
	config   clientv3.Config
	client   *clientv3.Client
	source   string // the endpoint whose member is copied
	users    uint64 // the revision of the users before the copy
	password string // of root; empty: the etcd was not closed
}

// Open connects to an etcd. It refuses one whose authentication is enabled or has a user root.
func Open(ctx context.Context, o Options) (_ *Etcd, err error) {
	if o.Timeout == 0 {
		o.Timeout = AnswerTimeout
	}
	e := &Etcd{o: o}
	if e.config, err = o.config(); err != nil {
		return nil, err
	}
	if e.client, err = clientv3.New(e.config); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.client.Close())
		}
	}()
	if e.source, err = e.answering(ctx); err != nil {
		return nil, err
	}
	return e, e.examine(ctx)
}

// Close ends the connection. The etcd stays as it is.
func (e *Etcd) Close() error { return e.client.Close() }

// answering returns the first endpoint that answers.
func (e *Etcd) answering(ctx context.Context) (string, error) {
	var all []error
	for _, endpoint := range e.o.Endpoints {
		ctx, cancel := context.WithTimeout(ctx, e.o.Timeout)
		_, err := e.client.Status(ctx, endpoint)
		cancel()
		switch {
		case err == nil:
			return endpoint, nil
		case errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err, rpctypes.ErrPermissionDenied):
			return "", errEnabled
		}
		all = append(all, fmt.Errorf("%s: %w", endpoint, err))
	}
	return "", fmt.Errorf("no member of the etcd answers: %w", errors.Join(all...))
}

// at returns the configuration of a client that asks only the copied member.
func (e *Etcd) at(user, password string) clientv3.Config {
	c := e.config
	c.Endpoints, c.Username, c.Password = []string{e.source}, user, password
	return c
}

// newest returns the revision of the last acknowledged write, or a later one.
func (e *Etcd) newest(ctx context.Context, c *clientv3.Client) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	r, err := c.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return r.Header.Revision, nil
}
