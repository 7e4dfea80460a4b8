package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"time"

	"github.com/netcraq/netcraq/eval/bench"
)

const memcachedPort = 11211

// memcached is one server with clients over UDP.
type memcached struct {
	*network
	links *datagramPool
}

func openMemcached(ctx context.Context, n *network, _ *Options) (Store, error) {
	host, _ := n.host(0)
	addr, threads := netip.AddrPortFrom(host, memcachedPort), runtime.NumCPU()
	server, err := n.run(0, memcachedCommand(addr, threads)...)
	if err != nil {
		return nil, err
	}
	s := &memcached{n, newDatagramPool(addr)}
	n.onClose(s.links.close)
	err = server.await(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 10*readyRetry)
		defer cancel()
		_, err := s.Get(ctx, "ready")
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := bench.EnlargeQueues(server.command.Process.Pid); err != nil {
		return nil, err
	}
	n.detail("memcached: one server, %d threads, 1024 MB, long receive queues; nothing outlives it, no replicas", threads)
	n.detail("clients: UDP; a socket for each client, several datagrams at once by sendmmsg and recvmmsg; repeated "+
		"after %v without an answer", datagramPatience)
	n.detail("get: get, of several at once with as many keys in a datagram as %d bytes hold; memcached 1.6 answers "+
		"each key in a datagram of its own. put: set, which has one key", multiGetBytes)
	n.detail("compare-and-swap: the meta command ms with a cas value")
	n.detail("lock: ms in mode add, which ends after %v; unlock: md with the cas value", lockTTL)
	return s, nil
}

// memcachedCommand returns the command line of a server.
func memcachedCommand(addr netip.AddrPort, threads int) []string {
	port := strconv.Itoa(int(addr.Port()))
	return []string{"memcached", "-u", "nobody", "-l", addr.Addr().String(), "-p", port, "-U", port, "-t",
		strconv.Itoa(threads), "-m", "1024"}
}

// Parts of the protocol.
const lineEnd = "\r\n"

func getRequest(key string) []byte { return []byte("get " + key + lineEnd) }

func setRequest(key string, value []byte) []byte {
	return fmt.Appendf(nil, "set %s 0 0 %d%s%s%s", key, len(value), lineEnd, value, lineEnd)
}

// metaSet returns the request "ms" with its flags.
func metaSet(key string, value []byte, flags string) []byte {
	return fmt.Appendf(nil, "ms %s %d %s%s%s%s", key, len(value), flags, lineEnd, value, lineEnd)
}

// parseGet parses the answer to a get.
func parseGet(answer []byte) ([]byte, error) {
	if bytes.HasPrefix(answer, []byte("END")) {
		return nil, ErrNotFound
	}
	_, value, _, ok := cutValue(answer)
	if !ok {
		return nil, refused(answer)
	}
	return bytes.Clone(value), nil
}

// cutValue cuts the first complete value and its key off an answer to a get.
func cutValue(answer []byte) (key, value, rest []byte, ok bool) {
	line, rest, _ := bytes.Cut(answer, []byte(lineEnd))
	line, ok = bytes.CutPrefix(line, []byte("VALUE "))
	key, line, _ = bytes.Cut(line, []byte(" "))
	_, size, _ := bytes.Cut(line, []byte(" ")) // the size follows the flags
	length, err := strconv.Atoi(string(size))
	if !ok || err != nil || length < 0 || length+len(lineEnd) > len(rest) {
		return nil, nil, nil, false
	}
	return key, rest[:length], rest[length+len(lineEnd):], true
}

func parseSet(answer []byte) error {
	if !bytes.HasPrefix(answer, []byte("STORED")) {
		return refused(answer)
	}
	return nil
}

func refused(answer []byte) error {
	const shown = 60
	return fmt.Errorf("memcached answers %q", answer[:min(len(answer), shown)])
}

func (s *memcached) Get(ctx context.Context, key string) (value []byte, err error) {
	_, asked := s.one(ctx, getRequest(key), func(answer []byte) { value, err = parseGet(answer) })
	return value, errors.Join(err, asked)
}

func (s *memcached) Put(ctx context.Context, key string, value []byte) (err error) {
	_, asked := s.one(ctx, setRequest(key, value), func(answer []byte) { err = parseSet(answer) })
	return errors.Join(err, asked)
}

// one sends one request until it is answered and returns the number of attempts.
func (s *memcached) one(ctx context.Context, request []byte, got func(answer []byte)) (attempts int, err error) {
	attempts = s.links.exchange(ctx, [][]byte{request}, func(_ int, answer []byte, failed error) {
		if err = failed; err == nil {
			got(answer)
		}
	})
	return attempts, err
}

// meta sends a meta command and returns the answer's code and its cas value.
func (s *memcached) meta(ctx context.Context, request []byte) (code string, cas Version, attempts int, err error) {
	attempts, err = s.one(ctx, request, func(answer []byte) {
		line, _, _ := bytes.Cut(answer, []byte(lineEnd))
		for i, field := range bytes.Fields(line) {
			if i == 0 {
				code = string(field)
			} else if field[0] == 'c' {
				n, _ := strconv.ParseUint(string(field[1:]), 10, 64) // 0 is none
				cas = Version(n)
			}
		}
	})
	return code, cas, attempts, err
}

func (s *memcached) CompareAndSwap(ctx context.Context, key string, version Version,
	value []byte) (Version, bool, error) {
	flags := fmt.Sprintf("c C%d", version)
	if version == 0 {
		flags = "c ME" // add
	}
	code, cas, attempts, err := s.meta(ctx, metaSet(key, value, flags))
	switch {
	case err != nil:
		return 0, false, err
	case code == "HD":
		return cas, true, nil
	case attempts > 1:
		return 0, false, ErrUnknown
	}
	_, cas, _, err = s.meta(ctx, []byte("mg "+key+" c"+lineEnd))
	return cas, false, err
}

// memcachedLock is an item that exists while the lock is held.
type memcachedLock struct {
	store *memcached
	key   string
	cas   Version
}

func (s *memcached) Lock(ctx context.Context, name string) (Lock, error) {
	l := memcachedLock{s, "lock:" + name, 0}
	code, cas, attempts, err := s.meta(ctx, metaSet(l.key, nil, fmt.Sprintf("c ME T%d", lockTTL/time.Second)))
	l.cas = cas
	switch {
	case err != nil:
		return nil, err
	case code == "HD":
		return l, nil
	case attempts > 1:
		return nil, ErrUnknown
	}
	return nil, ErrLocked
}

func (l memcachedLock) Unlock(ctx context.Context) error {
	code, _, attempts, err := l.store.meta(ctx, fmt.Appendf(nil, "md %s C%d%s", l.key, l.cas, lineEnd))
	switch {
	case err != nil || code == "HD":
		return err
	case attempts > 1:
		return ErrUnknown
	}
	return errLockLost
}
