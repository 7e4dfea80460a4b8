package serve

import (
	"container/list"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// DefaultConnections returns the default limit of connections: three quarters of the descriptors that the process may
// have, and at most [maxConnections]. The rest is for connections to etcd, to other gateways and for files.
func DefaultConnections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return minConnections
	}
	return int(max(minConnections, min(limit.Cur/4*3, maxConnections)))
}

const (
	// maxConnections bounds the memory of idle connections where descriptors are plenty.
	maxConnections = 16_384
	minConnections = 16
	// refusalsEvery bounds how often refused connections are logged.
	refusalsEvery = time.Minute
)

// connections are the open connections of a server, the oldest first.
type connections struct {
	most int
	log  *slog.Logger

	mu     sync.Mutex
	open   list.List // of *connection
	logged time.Time
}

// connection is one of a server's connections.
type connection struct {
	net.Conn
	of    *connections
	place *list.Element
	once  sync.Once

	mu   sync.Mutex
	idle func() bool // nil: it has no request under way
	end  func()      // nil: it is closed
}

// add takes a connection, or returns nil if the limit is reached and every connection has a request under way. Otherwise
// the oldest one without a request makes place: clients of gRPC connect again without an error.
func (c *connections) add(n net.Conn) *connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open.Len() >= c.most {
		victim := c.oldestIdle()
		if now := time.Now(); now.Sub(c.logged) >= refusalsEvery {
			c.logged = now
			c.log.Warn("the limit of connections is reached: raise --max-connections or the limit of descriptors, "+
				"or find out who opens so many", "limit", c.most, "all_in_use", victim == nil)
		}
		if victim == nil {
			return nil
		}
		c.remove(victim)
		go victim.stop()
	}
	added := &connection{Conn: n, of: c}
	added.place = c.open.PushBack(added)
	return added
}

// oldestIdle returns the oldest connection without a request under way. The caller holds mu.
func (c *connections) oldestIdle() *connection {
	for e := c.open.Front(); e != nil; e = e.Next() {
		if n := e.Value.(*connection); n.isIdle() {
			return n
		}
	}
	return nil
}

// remove stops counting a connection. The caller holds mu.
func (c *connections) remove(n *connection) {
	if n.place != nil {
		c.open.Remove(n.place)
		n.place = nil
	}
}

// uses says how to find out whether the connection has no request under way, and how to end it then.
func (n *connection) uses(idle func() bool, end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.idle, n.end = idle, end
}

func (n *connection) isIdle() bool {
	n.mu.Lock()
	idle := n.idle
	n.mu.Unlock()
	return idle == nil || idle()
}

// stop ends the connection.
func (n *connection) stop() {
	n.mu.Lock()
	end := n.end
	n.mu.Unlock()
	if end != nil {
		end()
		return
	}
	_ = n.Close() // its client is told nothing
}

// Close closes the connection, which counts no more.
func (n *connection) Close() error {
	n.once.Do(func() {
		n.of.mu.Lock()
		defer n.of.mu.Unlock()
		n.of.remove(n)
	})
	return n.Conn.Close()
}

// all returns the open connections.
func (c *connections) all() (open []*connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.open.Front(); e != nil; e = e.Next() {
		open = append(open, e.Value.(*connection))
	}
	return open
}
