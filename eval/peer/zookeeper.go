package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// Ports of clients, of followers and of elections, at each server's own address.
const zookeeperPort, zookeeperFollowers, zookeeperElections = 2181, 2888, 3888

const (
	zookeeperHeap        = "512m"
	zookeeperConnections = 8
	zookeeperSession     = 10 * time.Second
)

// zookeeper is an ensemble of servers. Each is a Java process on its own host.
type zookeeper struct {
	*network
	sessions []*zk.Conn
	next     atomic.Uint32 // session
	stale    bool
}

func openZooKeeper(ctx context.Context, n *network, o *Options) (Store, error) {
	s := &zookeeper{network: n, stale: o.Stale}
	if err := s.startServers(ctx); err != nil {
		return nil, err
	}
	connections := o.Connections
	if connections == 0 {
		connections = zookeeperConnections
	}
	for range connections {
		if err := s.connect(ctx); err != nil {
			return nil, err
		}
	}
	for _, path := range []string{"/k", "/lock"} {
		if _, err := s.session().Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			return nil, fmt.Errorf("create %s: %w", path, err)
		}
	}
	s.describe()
	o.Progress("zookeeper: warming up")
	return s, s.warmUp(ctx)
}

// zookeeperWarmUp is the duration of each operation before the measurement: the Java VM compiles
// frequent code.
const zookeeperWarmUp = 1500 * time.Millisecond

func (s *zookeeper) warmUp(ctx context.Context) error {
	for _, op := range []Op{Put, Get} {
		l := Load{Op: op, Clients: 16, Duration: zookeeperWarmUp, WarmUp: time.Millisecond}
		if _, err := Run(ctx, s, l); err != nil {
			return err
		}
	}
	return nil
}

func (s *zookeeper) describe() {
	s.detail("zookeeper: %d servers, each a Java process with a heap of %s; data and transaction log in memory "+
		"(tmpfs), log level error, no metrics, no admin server, else its own defaults",
		s.hosts(), zookeeperHeap)
	s.detail("warmed up by writes and reads for %v each before anything is measured", zookeeperWarmUp)
	s.detail("clients: go-zookeeper, %d sessions with the leader, which is next to the clients", len(s.sessions))
	if s.stale {
		s.detail("get: getData without sync: NOT linearizable, may be old")
	} else {
		s.detail("get: sync, then getData: two round trips, since the client has no call that sends both at once")
	}
	s.detail("put: setData, or create; compare-and-swap: setData with a version, and exists if that is refused")
	s.detail("lock: create of an ephemeral node; unlock: delete; a session ends %v after its client", zookeeperSession)
}

// startServers starts the server with the highest id and enough others to elect it, then the rest.
func (s *zookeeper) startServers(ctx context.Context) error {
	majority := s.hosts()/2 + 1
	var first *process
	for i := range s.hosts() {
		if i == majority {
			if err := first.await(ctx, s.leading); err != nil {
				return err
			}
		}
		p, err := s.startServer(i)
		if err != nil {
			return err
		}
		if i == 0 {
			first = p
		}
	}
	return first.await(ctx, s.leading)
}

// id gives the first server the highest id, so that it wins an election of empty servers.
func (s *zookeeper) id(i int) int { return s.hosts() - i }

func (s *zookeeper) startServer(i int) (*process, error) {
	dir, err := s.directory(i)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "zoo.cfg")
	err = errors.Join(os.WriteFile(filepath.Join(dir, "myid"), []byte(strconv.Itoa(s.id(i))), 0o644),
		os.WriteFile(file, []byte(s.configuration(i, dir)), 0o644))
	if err != nil {
		return nil, err
	}
	return s.run(i, "java", "-Xms"+zookeeperHeap, "-Xmx"+zookeeperHeap, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", strings.Join(classPath(), ":"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
}

// configuration returns zoo.cfg.
func (s *zookeeper) configuration(i int, dir string) string {
	own, _ := s.host(i)
	lines := []string{"tickTime=2000", "initLimit=10", "syncLimit=5", "dataDir=" + dir,
		fmt.Sprintf("clientPort=%d", zookeeperPort),
		"clientPortAddress=" + own.String(), "maxClientCnxns=0", "admin.enableServer=false", "4lw.commands.whitelist=srvr",
		"standaloneEnabled=" + strconv.FormatBool(s.hosts() == 1)}
	for j := range s.hosts() {
		addr, _ := s.host(j)
		lines = append(lines, fmt.Sprintf("server.%d=%v:%d:%d", s.id(j), addr, zookeeperFollowers, zookeeperElections))
	}
	return strings.Join(lines, "\n") + "\n"
}

func (s *zookeeper) address() string {
	addr, _ := s.host(0)
	return netip.AddrPortFrom(addr, zookeeperPort).String()
}

// leading reports an error unless the first server leads.
func (s *zookeeper) leading(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", s.address())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return err
	}
	mode := "Mode: leader"
	if s.hosts() == 1 {
		mode = "Mode: standalone"
	}
	if !strings.Contains(string(text), mode) {
		return fmt.Errorf("the first server does not lead: %q", text)
	}
	return nil
}

// silent discards the client's log.
type silent struct{}

func (silent) Printf(string, ...any) {}

func (s *zookeeper) connect(ctx context.Context) error {
	c, events, err := zk.Connect([]string{s.address()}, zookeeperSession, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	s.onClose(func() error { c.Close(); return nil })
	limit := time.NewTimer(readyWithin)
	defer limit.Stop()
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				s.sessions = append(s.sessions, c)
				return nil
			}
		case <-limit.C:
			return errors.New("no session with the first server")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *zookeeper) session() *zk.Conn { return s.sessions[int(s.next.Add(1))%len(s.sessions)] }

func nodeOf(key string) string { return "/k/" + key }

// Get syncs and reads in one session, so that the read follows the sync. It ignores the context:
// the client library takes none.
func (s *zookeeper) Get(_ context.Context, key string) ([]byte, error) {
	session, node := s.session(), nodeOf(key)
	if !s.stale {
		if _, err := session.Sync(node); err != nil {
			return nil, err
		}
	}
	value, _, err := session.Get(node)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, ErrNotFound
	}
	return value, err
}

func (s *zookeeper) Put(ctx context.Context, key string, value []byte) error {
	const any = -1
	for ctx.Err() == nil {
		_, err := s.session().Set(nodeOf(key), value, any)
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if _, err = s.session().Create(nodeOf(key), value, 0, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return ctx.Err()
}

// versionOf converts a znode's version to a store's: an existing znode has at least 1.
func versionOf(stat *zk.Stat) Version { return Version(stat.Version) + 1 }

func (s *zookeeper) CompareAndSwap(_ context.Context, key string, version Version,
	value []byte) (Version, bool, error) {
	session, node := s.session(), nodeOf(key)
	if version == 0 {
		switch _, err := session.Create(node, value, 0, zk.WorldACL(zk.PermAll)); {
		case err == nil:
			return 1, true, nil
		case !errors.Is(err, zk.ErrNodeExists):
			return 0, false, err
		}
	} else {
		switch stat, err := session.Set(node, value, int32(version-1)); {
		case err == nil:
			return versionOf(stat), true, nil
		case !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode):
			return 0, false, err
		}
	}
	exists, stat, err := session.Exists(node)
	if err != nil || !exists {
		return 0, false, err
	}
	return versionOf(stat), false, nil
}

// zookeeperLock is an ephemeral znode, which ends with the session that created it.
type zookeeperLock struct {
	session *zk.Conn
	node    string
}

func (s *zookeeper) Lock(_ context.Context, name string) (Lock, error) {
	l := zookeeperLock{s.session(), "/lock/" + name}
	_, err := l.session.Create(l.node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (l zookeeperLock) Unlock(context.Context) error {
	const asCreated = 0 // locks' znodes never change
	return l.session.Delete(l.node, asCreated)
}
