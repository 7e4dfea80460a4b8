package record

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
	"github.com/netcraq/netcraq/internal/platform/callerror"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// Errors to compare with errors.Is.
var (
	// ErrGone: the controllers have no record of a keyspace of which this gateway's disk has content.
	ErrGone = errors.New("the controllers do not know the keyspace of this data directory")
	// ErrOther: the controllers have another keyspace of this name.
	ErrOther = errors.New("this data directory is of another keyspace of that name")
)

const (
	// askWithin bounds one call of one controller.
	askWithin = 2 * time.Second
	// silentWithin bounds the silence of a controller, which sends something every second.
	silentWithin = 5 * time.Second
	// pauseMin and pauseMax bound the time between two rounds of all controllers.
	pauseMin = 20 * time.Millisecond
	pauseMax = time.Second
	// pingEvery is the time between two probes of a connection without answers: gRPC's shortest.
	pingEvery = 10 * time.Second
)

// Options say whose record it is, and where it is.
type Options struct {
	Name string
	// Controllers are the present addresses of the controllers.
	Controllers func() []string
	// Dial secures connections to them.
	Dial grpc.DialOption
	// Known is the number of the keyspace whose content this gateway's disk has; 0: it is empty.
	Known uint64
	// Waits is told why [Open] has no answer yet. nil: nobody is.
	Waits func(reason error)
}

// Record is the record of one keyspace. It implements [driver.Record], and is safe for concurrent use.
type Record struct {
	o      Options
	id     uint64
	secret []byte

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn
	last  string // the controller that has answered last
}

var _ driver.Record = (*Record)(nil)

// Open finds the record. If the controllers have none, and the gateway's disk is empty, it makes the keyspace. It tries
// until ctx ends. The errors are ErrGone and ErrOther, or say why there is no answer.
func Open(ctx context.Context, o Options) (*Record, error) {
	if err := CheckName(o.Name); err != nil {
		return nil, err
	}
	r := &Record{o: o, conns: make(map[string]*grpc.ClientConn)}
	for {
		k, err := r.findSoon(ctx)
		switch {
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			if o.Waits != nil {
				o.Waits(err)
			}
			continue
		case err != nil:
			return nil, errors.Join(err, r.Close())
		case k == nil:
			continue
		case o.Known != 0 && k.ID != o.Known:
			return nil, errors.Join(fmt.Errorf("%w: the controllers' keyspace %s has the number %x, and the disk is of %x. "+
				"Name the controllers of its cluster, or another directory", ErrOther, o.Name, k.ID, o.Known), r.Close())
		case len(k.Secret) == 0:
			return nil, errors.Join(errors.New("this identity may not serve a keyspace: use one with the role operator"),
				r.Close())
		}
		r.id, r.secret = k.ID, k.Secret
		return r, nil
	}
}

// findSoon bounds find, so that it says why it has no answer.
func (r *Record) findSoon(ctx context.Context) (*Keyspace, error) {
	ctx, cancel := context.WithTimeout(ctx, silentWithin)
	defer cancel()
	return r.find(ctx)
}

// find returns the keyspace, and makes it if there is none. nil: try again.
func (r *Record) find(ctx context.Context) (*Keyspace, error) {
	k, version, _, err := r.read(ctx)
	switch {
	case err != nil:
		return nil, err
	case k != nil:
		return k, nil
	case r.o.Known != 0:
		return nil, fmt.Errorf("%w: it is keyspace %s with the number %x. Was the controllers' data lost or replaced? "+
			"Name the controllers of its cluster; nothing is made anew over existing data", ErrGone, r.o.Name, r.o.Known)
	}
	own := &Keyspace{Name: r.o.Name, ID: rand.Uint64() | 1, Secret: make([]byte, secretBytes)}
	_, _ = cryptorand.Read(own.Secret) // never fails
	_, swapped, err := r.swap(ctx, version, own)
	switch {
	case err != nil && refused(err):
		return nil, plain(err)
	case err != nil || !swapped:
		retry.Sleep(ctx, pauseMin)
		return nil, ctx.Err() // it is read again
	}
	return own, nil
}

// ID is the number of the keyspace.
func (r *Record) ID() uint64 { return r.id }

// Secret is that by which the keyspace's gateways know each other.
func (r *Record) Secret() []byte { return r.secret }

// Close ends the connections.
func (r *Record) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []error
	for _, conn := range r.conns {
		all = append(all, conn.Close())
	}
	clear(r.conns)
	return errors.Join(all...)
}

// Read implements [driver.Record].
func (r *Record) Read(ctx context.Context) (s driver.State, version uint64, err error) {
	k, version, _, err := r.read(ctx)
	if err != nil {
		return s, 0, err
	}
	return r.own(k, version)
}

// own is the record of this keyspace.
func (r *Record) own(k *Keyspace, version uint64) (s driver.State, _ uint64, err error) {
	switch {
	case k == nil:
		return s, 0, fmt.Errorf("%w: somebody has deleted the record of keyspace %s", ErrGone, r.o.Name)
	case k.ID != r.id:
		return s, 0, fmt.Errorf("%w: the record of keyspace %s has been replaced", ErrOther, r.o.Name)
	}
	return k.State, version, nil
}

// Swap implements [driver.Record]. A controller that has just answered is asked once, because a second attempt would
// find the record of the first one.
func (r *Record) Swap(ctx context.Context, version uint64, s driver.State) (now uint64, swapped bool, err error) {
	now, swapped, err = r.swap(ctx, version, &Keyspace{Name: r.o.Name, ID: r.id, Secret: r.secret, State: s})
	if err != nil {
		err = plain(err)
	}
	return now, swapped, err
}

func (r *Record) swap(ctx context.Context, version uint64, k *Keyspace) (now uint64, swapped bool, err error) {
	_, present, controller, err := r.read(ctx)
	if err != nil || present != version {
		return 0, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	out, err := controller.SetKeyspace(ctx, &controllerv1.SetKeyspaceRequest{Version: version, Keyspace: Encode(k)})
	return out.GetVersion(), out.GetSwapped(), err
}

// read reads the record, nil if there is none, and returns the controller that has answered.
func (r *Record) read(ctx context.Context) (k *Keyspace, version uint64, c controllerv1.ControllerClient, err error) {
	err = r.ask(ctx, func(ctx context.Context, controller controllerv1.ControllerClient) error {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		stream, err := controller.Keyspace(ctx, &controllerv1.KeyspaceRequest{Name: r.o.Name})
		if err != nil {
			return err
		}
		in, err := stream.Recv()
		if err != nil {
			return err
		}
		c = controller
		k, version, err = r.decode(in)
		return err
	})
	return k, version, c, err
}

func (r *Record) decode(in *controllerv1.KeyspaceResponse) (k *Keyspace, version uint64, err error) {
	if in.GetKeyspace() == nil {
		return nil, in.GetVersion(), nil
	}
	k, err = Decode(in.GetKeyspace())
	if err == nil && k.Name != r.o.Name {
		err = fmt.Errorf("a controller was asked for keyspace %s, and answers with %s", r.o.Name, k.Name)
	}
	return k, in.GetVersion(), err
}

// Watch implements [driver.Record].
func (r *Record) Watch(ctx context.Context, changed func(s driver.State, version uint64)) error {
	return r.ask(ctx, func(ctx context.Context, controller controllerv1.ControllerClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		silent := time.AfterFunc(askWithin, cancel)
		defer silent.Stop()
		stream, err := controller.Keyspace(ctx, &controllerv1.KeyspaceRequest{Name: r.o.Name, Follow: true})
		last := uint64(0)
		for err == nil {
			var in *controllerv1.KeyspaceResponse
			if in, err = stream.Recv(); err != nil {
				break
			}
			silent.Reset(silentWithin)
			if err = r.follow(in, &last, changed); err != nil {
				return err
			}
		}
		if last > 0 {
			return &brokenError{err}
		}
		if !silent.Stop() && status.Code(err) == codes.Canceled {
			err = status.Error(codes.Unavailable, "no answer in time")
		}
		return err
	})
}

// brokenError says that a connection ended that had worked.
type brokenError struct{ error }

// follow hands a record over that is newer than the last one.
func (r *Record) follow(in *controllerv1.KeyspaceResponse, last *uint64, changed func(driver.State, uint64)) error {
	if in.GetVersion() <= *last && *last > 0 {
		return nil
	}
	k, version, err := r.decode(in)
	if err != nil {
		return err
	}
	s, version, err := r.own(k, version)
	if err != nil {
		return err
	}
	*last = version
	changed(s, version)
	return nil
}

// ask calls one controller after the other until one answers or ctx ends.
func (r *Record) ask(ctx context.Context, call func(context.Context, controllerv1.ControllerClient) error) error {
	reasons := make(map[string]string)
	for pauses := retry.Between(pauseMin, pauseMax); ; {
		for _, address := range r.addresses() {
			conn, err := r.conn(address)
			if err == nil {
				err = call(ctx, controllerv1.NewControllerClient(conn))
			}
			if err == nil {
				r.mu.Lock()
				r.last = address
				r.mu.Unlock()
				return nil
			}
			if ctx.Err() != nil {
				return nobody(ctx, reasons)
			}
			if refused(err) {
				return plain(err)
			}
			reasons[address] = callerror.Text(err)
		}
		if !pauses.Wait(ctx) {
			return nobody(ctx, reasons)
		}
	}
}

// refused reports whether another controller would not answer otherwise.
func refused(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unimplemented, codes.ResourceExhausted:
		return false
	}
	return true
}

// plain is a controller's message without the text that gRPC adds.
func plain(err error) error {
	if _, ok := status.FromError(err); ok {
		return errors.New(callerror.Text(err))
	}
	return err
}

func nobody(ctx context.Context, reasons map[string]string) error {
	var parts []string
	for _, address := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, address+": "+reasons[address])
	}
	return fmt.Errorf("no controller answers (%s): %w", cmp.Or(strings.Join(parts, "; "), "none was asked"),
		context.Cause(ctx))
}

// addresses are those of the controllers, the one that has answered last first.
func (r *Record) addresses() []string {
	all := slices.Clone(r.o.Controllers())
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(all, r.last); i > 0 {
		all[0], all[i] = all[i], all[0]
	}
	return all
}

func (r *Record) conn(address string) (*grpc.ClientConn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if conn := r.conns[address]; conn != nil {
		return conn, nil
	}
	conn, err := grpc.NewClient("passthrough:///"+address, r.o.Dial,
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: askWithin}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: pauseMin, Multiplier: 1.6, Jitter: 0.2, MaxDelay: pauseMax},
			MinConnectTimeout: askWithin,
		}))
	if err != nil {
		return nil, err
	}
	r.conns[address] = conn
	return conn, nil
}
