package peer

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"sync/atomic"

	"github.com/redis/rueidis"
)

const redisPort = 6379

// tagBytes is the length of the tag before every value. The tag is unique for each write, since
// Redis has no versions.
const tagBytes = 8

// swapScript stores a value iff the tag is as expected, and returns the current tag otherwise.
var swapScript = rueidis.NewLuaScript(`local there = redis.call('GETRANGE', KEYS[1], 0, 7)
if there == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return false end
return there`)

// unlockScript removes a lock iff its token is the holder's.
var unlockScript = rueidis.NewLuaScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

// redis is one server without persistence or replicas.
type redis struct {
	*network
	client rueidis.Client
	tag    atomic.Uint64
}

func openRedis(ctx context.Context, n *network, o *Options) (Store, error) {
	addr, _ := n.host(0)
	server, err := n.run(0, "redis-server", "--bind", addr.String(), "--port", strconv.Itoa(redisPort),
		"--protected-mode", "no",
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning")
	if err != nil {
		return nil, err
	}
	s := &redis{network: n}
	s.tag.Store(rand.Uint64() | 1)
	err = server.await(ctx, func(ctx context.Context) error {
		s.client, err = rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{s.address().String()}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
			DisableAutoPipelining: o.Connections == 0, PipelineMultiplex: multiplex(o.Connections),
		})
		if err != nil {
			return err
		}
		return s.client.Do(ctx, s.client.B().Ping().Build()).Error()
	})
	if err != nil {
		return nil, err
	}
	n.onClose(func() error { s.client.Close(); return nil })
	n.detail("redis: one server, one thread, no persistence (save \"\", appendonly no), no replicas: nothing outlives it")
	if o.Connections == 0 {
		n.detail("clients: rueidis, a connection for each client; several requests at once of one client go in one pipeline")
	} else {
		n.detail("clients: rueidis, %d connections on which requests of all clients are pipelined", o.Connections)
	}
	n.detail("get: GET; put: SET; compare-and-swap: a Lua script (EVALSHA) that compares 8 bytes before the value, a number of each write")
	n.detail("lock: SET NX PX %d with a token; unlock: a Lua script that compares the token, then DEL",
		lockTTL.Milliseconds())
	return s, nil
}

// multiplex converts a number of connections to the power of two that the client library expects.
func multiplex(connections int) int {
	power := 0
	for 1<<power < connections && power < rueidis.MaxPipelineMultiplex {
		power++
	}
	return power
}

func (s *redis) address() netip.AddrPort {
	addr, _ := s.host(0)
	return netip.AddrPortFrom(addr, redisPort)
}

// tagged prefixes a value with a new tag.
func (s *redis) tagged(value []byte) (tag Version, text string) {
	tag = Version(s.tag.Add(1))
	if tag == 0 {
		tag = Version(s.tag.Add(1))
	}
	return tag, tag.bytes() + rueidis.BinaryString(value)
}

// bytes returns the version as stored before a value; empty for a key without a value.
func (v Version) bytes() string {
	if v == 0 {
		return ""
	}
	return string(binary.BigEndian.AppendUint64(nil, uint64(v)))
}

// untagged extracts the value from an answer to GET.
func untagged(r rueidis.RedisResult) ([]byte, error) {
	value, err := r.AsBytes()
	if rueidis.IsRedisNil(err) {
		return nil, ErrNotFound
	}
	if err != nil || len(value) < tagBytes {
		return nil, err
	}
	return value[tagBytes:], nil
}

func (s *redis) Get(ctx context.Context, key string) ([]byte, error) {
	return untagged(s.client.Do(ctx, s.client.B().Get().Key(key).Build()))
}

func (s *redis) Put(ctx context.Context, key string, value []byte) error {
	_, text := s.tagged(value)
	return s.client.Do(ctx, s.client.B().Set().Key(key).Value(text).Build()).Error()
}

func (s *redis) CompareAndSwap(ctx context.Context, key string, version Version, value []byte) (Version, bool, error) {
	tag, text := s.tagged(value)
	there, err := swapScript.Exec(ctx, s.client, []string{key}, []string{version.bytes(), text}).ToString()
	switch {
	case rueidis.IsRedisNil(err):
		return tag, true, nil
	case err != nil:
		return 0, false, err
	case len(there) < tagBytes:
		return 0, false, nil
	}
	return Version(binary.BigEndian.Uint64([]byte(there))), false, nil
}

// redisLock is a key that holds its holder's token.
type redisLock struct {
	store      *redis
	key, token string
}

func (s *redis) Lock(ctx context.Context, name string) (Lock, error) {
	l := redisLock{s, "lock:" + name, strconv.FormatUint(s.tag.Add(1), 16)}
	err := s.client.Do(ctx, s.client.B().Set().Key(l.key).Value(l.token).Nx().PxMilliseconds(
		lockTTL.Milliseconds()).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (l redisLock) Unlock(ctx context.Context) error {
	removed, err := unlockScript.Exec(ctx, l.store.client, []string{l.key}, []string{l.token}).AsInt64()
	if err == nil && removed == 0 {
		return errLockLost
	}
	return err
}

func (s *redis) GetMany(ctx context.Context, keys []string, got func(int, []byte, error)) {
	commands := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		commands[i] = s.client.B().Get().Key(key).Build()
	}
	for i, r := range s.client.DoMulti(ctx, commands...) {
		value, err := untagged(r)
		got(i, value, err)
	}
}

func (s *redis) PutMany(ctx context.Context, keys []string, value []byte, done func(int, error)) {
	commands := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		_, text := s.tagged(value)
		commands[i] = s.client.B().Set().Key(key).Value(text).Build()
	}
	for i, r := range s.client.DoMulti(ctx, commands...) {
		done(i, r.Error())
	}
}
