package objects

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/wire"
)

const (
	// attempt bounds one try of an operation that changes something. It is repeated until it is answered.
	attempt = time.Second
	// readWithin bounds a read.
	readWithin = 150 * time.Millisecond
	// firstPause and longestPause bound the pause after a try without an answer.
	firstPause   = time.Millisecond
	longestPause = 200 * time.Millisecond
	// room is kept for tickets behind a value that just fits.
	room = 64
)

// Nearby reads keys from the memory of a node on this machine, in their order. It calls answer for those that the node may
// answer at once. The value is valid during that call only.
type Nearby interface {
	Read(keys []wire.Key, answer func(i int, version uint64, epoch uint32, value []byte))
}

// Store is the objects of one etcd in a chain.
type Store struct {
	chain   Chain
	near    Nearby // nil: none
	prefix  string
	largest atomic.Int64 // bytes of an object

	mu    sync.Mutex
	lines map[string]*line
}

// line is the operations on one key that wait, in order.
type line struct {
	waiting []pending
	served  bool  // by a goroutine, which alone uses known
	known   known // at the end of the last operation
}

type pending struct {
	op    *core.Op
	while func() bool // nil: always
	then  func(core.Answer)
}

// known is a key of the chain as it was last seen.
type known struct {
	valid     bool
	version   uint64 // 0: the key does not exist
	core.Cell        // its epoch changes whenever the state is lost, and more often
}

// New makes a store; the prefix keeps etcds apart that share a chain. near may be nil.
func New(chain Chain, near Nearby, prefix string) *Store {
	s := &Store{chain: chain, near: near, prefix: prefix, lines: make(map[string]*line)}
	s.largest.Store(wire.MaxValueBytes)
	return s
}

// revisionKey cannot be that of an object.
const revisionKey = "r"

func (s *Store) key(op *core.Op) string {
	if op.Kind == core.Max || op.Kind == core.ReadRevision {
		return s.prefix + revisionKey
	}
	return s.prefix + "o/" + op.Key
}

// Name is the name of a key's object in the chain.
func (s *Store) Name(key string) string { return s.key(&core.Op{Kind: core.ReadObject, Key: key}) }

// Fits reports whether a value can be cached.
func (s *Store) Fits(key string, value int) bool {
	return len(s.prefix)+2+len(key) <= wire.MaxKeyBytes && value <= int(s.largest.Load())-room-maxHeader
}

// maxHeader is the longest object without tickets and value.
const maxHeader = 3 + 7*binary.MaxVarintLen64

// Revision reads the revision object, and Object an object. They answer Away if the chain does not answer in time.
func (s *Store) Revision(ctx context.Context) core.Answer {
	return s.read(ctx, &core.Op{Kind: core.ReadRevision})
}

// Object reads an object.
func (s *Store) Object(ctx context.Context, key string) core.Answer {
	return s.read(ctx, &core.Op{Kind: core.ReadObject, Key: key})
}

// Objects reads several objects side by side. The answers are in the order of the keys.
func (s *Store) Objects(ctx context.Context, keys []string) []core.Answer {
	if len(keys) == 1 {
		return []core.Answer{s.Object(ctx, keys[0])}
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	names, ops := make([]string, len(keys)), make([]core.Op, len(keys))
	for i, key := range keys {
		ops[i] = core.Op{Kind: core.ReadObject, Key: key}
		names[i] = s.key(&ops[i])
	}
	answers := make([]core.Answer, len(keys))
	for i, o := range s.chain.GetMany(ctx, names) {
		k, err := seen(&ops[i], o.Result, o.Err)
		answers[i] = k.answer(&ops[i], err)
	}
	return answers
}

// ReadNearby reads the revision object and then objects from the memory of a node on this machine. Answers that it does not
// give are Away; without the revision all are.
func (s *Store) ReadNearby(keys []string) (revision core.Answer, objects []core.Answer) {
	answers := make([]core.Answer, 1+len(keys))
	for i := range answers {
		answers[i].Status = core.Away
	}
	if s.near == nil {
		return answers[0], answers[1:]
	}
	ops, hashed := make([]core.Op, len(answers)), make([]wire.Key, len(answers))
	ops[0].Kind = core.ReadRevision
	for i, key := range keys {
		ops[1+i] = core.Op{Kind: core.ReadObject, Key: key}
	}
	for i := range ops {
		var err error
		if hashed[i], err = wire.HashKey([]byte(s.key(&ops[i]))); err != nil {
			return answers[0], answers[1:]
		}
	}
	s.near.Read(hashed, func(i int, version uint64, epoch uint32, value []byte) {
		k, err := seen(&ops[i], client.Result{Version: version, Epoch: epoch, Value: value}, nil)
		if i == 0 || answers[0].Status == core.OK {
			answers[i] = k.answer(&ops[i], err)
		}
	})
	return answers[0], answers[1:]
}

// Discard deletes the objects of keys and the revision object, as far as the chain answers. Nothing may use this store any more.
func (s *Store) Discard(ctx context.Context, keys []string) {
	for _, key := range keys {
		_, _ = s.chain.Delete(ctx, s.key(&core.Op{Kind: core.Remove, Key: key})) // what is left takes room, and is not read
	}
	_, _ = s.chain.Delete(ctx, s.key(&core.Op{Kind: core.Max}))
}

func (s *Store) read(ctx context.Context, op *core.Op) core.Answer {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	k, err := s.look(ctx, op)
	return k.answer(op, err)
}

// answer is the answer to a read.
func (k *known) answer(op *core.Op, err error) core.Answer {
	if err != nil {
		return core.Answer{Status: core.Away}
	}
	a, _ := k.Apply(op, 0)
	return a
}

// look reads a key of the chain.
func (s *Store) look(ctx context.Context, op *core.Op) (known, error) {
	r, err := s.chain.Get(ctx, s.key(op))
	return seen(op, r, err)
}

// seen is a key of the chain as a read of it found it.
func seen(op *core.Op, r client.Result, err error) (known, error) {
	switch {
	case errors.Is(err, client.ErrNotFound):
		return known{valid: true, Cell: core.Cell{Epoch: uint64(r.Epoch)}}, nil
	case err != nil:
		return known{}, err
	}
	k := known{valid: true, version: r.Version, Cell: core.Cell{Epoch: uint64(r.Epoch)}}
	return k, k.decode(op, r.Value)
}

func (k *known) decode(op *core.Op, value []byte) (err error) {
	if op.Kind != core.Max && op.Kind != core.ReadRevision {
		k.Object, err = decode(value)
		return err
	}
	if len(value) != 8 {
		return errFormat
	}
	k.Revision = int64(binary.BigEndian.Uint64(value))
	return nil
}

// Do executes an operation, as often as it takes, and calls then on another goroutine. It gives up with ctx, without an
// answer. It answers Away when while returns false before a try; nil: never.
func (s *Store) Do(ctx context.Context, op *core.Op, while func() bool, then func(core.Answer)) {
	if op.Kind == core.ReadObject || op.Kind == core.ReadRevision {
		go func() { then(s.read(ctx, op)) }()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.key(op)
	l := s.lines[key]
	if l == nil {
		l = new(line)
		s.lines[key] = l
	}
	l.waiting = append(l.waiting, pending{op, while, then})
	if !l.served {
		l.served = true
		go s.serve(ctx, key, l)
	}
}

// serve executes what waits for a key, until nothing does.
func (s *Store) serve(ctx context.Context, key string, l *line) {
	pause := firstPause
	for ctx.Err() == nil {
		s.mu.Lock()
		batch := l.waiting
		if len(batch) == 0 {
			l.served = false
			if l.known.version == 0 {
				delete(s.lines, key)
			}
			s.mu.Unlock()
			return
		}
		l.waiting = nil
		s.mu.Unlock()
		for {
			if batch = inTime(batch); len(batch) == 0 {
				break
			}
			answers, err := s.try(ctx, key, l, batch)
			if err == nil {
				pause = firstPause
				for i, a := range answers {
					batch[i].then(a)
				}
				break
			}
			l.known.valid = false
			if ctx.Err() != nil {
				return
			}
			time.Sleep(pause/2 + rand.N(pause))
			pause = min(2*pause, longestPause)
		}
	}
}

// inTime answers those operations of a batch that are not to be tried any more, and returns the others.
func inTime(batch []pending) []pending {
	return slices.DeleteFunc(batch, func(p pending) bool {
		late := p.while != nil && !p.while()
		if late {
			p.then(core.Answer{Status: core.Away})
		}
		return late
	})
}

// try executes a batch once, on what is known of the key or is read now.
func (s *Store) try(ctx context.Context, key string, l *line, batch []pending) ([]core.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	for fresh := false; ; {
		if !l.known.valid {
			k, err := s.look(ctx, batch[0].op)
			if err != nil {
				return nil, err
			}
			l.known, fresh = k, true
		}
		next := l.known
		if next.Object != nil {
			o := *next.Object
			next.Object = &o
		}
		answers, changed := make([]core.Answer, len(batch)), false
		for i, p := range batch {
			var did bool
			answers[i], did = next.Apply(p.op, 0)
			changed = changed || did
		}
		if !changed {
			if fresh {
				return answers, nil
			}
			l.known.valid = false // it may be long ago: a stale GONE would let a write pass without a bit
			continue
		}
		err := s.write(ctx, key, l, &next)
		var failed *client.CASFailedError
		switch {
		case err == nil:
			return answers, nil
		case errors.As(err, &failed) && failed.Version != 0 && !failed.ValueUnknown && len(failed.Value) > 0:
			l.known, fresh = known{valid: true, version: failed.Version, Cell: core.Cell{Epoch: l.known.Epoch}}, true
			if err := l.known.decode(batch[0].op, failed.Value); err != nil {
				return nil, err
			}
		case errors.Is(err, client.ErrCASFailed), errors.Is(err, client.ErrOtherEpoch):
			l.known.valid = false
		case errors.Is(err, client.ErrFull) && l.known.version == 0:
			l.known.valid = false
			for i, p := range batch {
				if p.op.Kind == core.Create {
					answers[i].Status = core.Full
				}
			}
			return answers, nil
		case errors.Is(err, client.ErrTooLarge) && len(next.Object.Value) > 0:
			s.largest.Store(s.largest.Load() / 2)
		default:
			return nil, err
		}
	}
}

// write replaces what is known of a key.
func (s *Store) write(ctx context.Context, key string, l *line, next *known) error {
	if next.Object == nil && next.Revision == 0 { // nothing but REMOVE comes to this
		l.known.valid = false
		_, err := s.chain.Delete(ctx, key)
		return err
	}
	var value []byte
	if next.Revision != 0 {
		value = binary.BigEndian.AppendUint64(nil, uint64(next.Revision))
	} else if value = encode(nil, next.Object); len(value) > int(s.largest.Load()) {
		next.Object.State, next.Object.Value = core.NotCacheable, ""
		value = encode(value[:0], next.Object)
	}
	outcome := s.chain.Do(ctx, []client.Op{client.CASOp(key, l.known.version, value).InEpoch(uint32(l.known.Epoch))})[0]
	if outcome.Err == nil {
		next.version, next.Epoch = outcome.Version, uint64(outcome.Epoch)
		l.known = *next
	}
	return outcome.Err
}
