package proxy

import (
	"io"
	"net"
	"sync"
	"testing"
)

// line forwards connections to an address until it is cut.
type line struct {
	listener net.Listener
	silent   chan struct{} // closed when nothing is forwarded any more
	answers  sync.RWMutex  // locked while answers are held
	mu       sync.Mutex
	ends     []net.Conn
	closed   bool
}

// hold holds answers up until release is called.
func (w *line) hold() (release func()) {
	w.answers.Lock()
	return sync.OnceFunc(w.answers.Unlock)
}

func startLine(t *testing.T, to string) *line {
	t.Helper()
	w := &line{listener: must(net.Listen("tcp", "127.0.0.1:0"))(t), silent: make(chan struct{})}
	t.Cleanup(w.cut)
	go func() {
		for {
			in, err := w.listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			w.mu.Lock()
			w.ends = append(w.ends, in, out)
			if w.closed {
				in.Close()
				out.Close()
			}
			w.mu.Unlock()
			go w.copy(writer(func(b []byte) (int, error) {
				w.answers.RLock()
				defer w.answers.RUnlock()
				return in.Write(b)
			}), out)
			go w.copy(out, in)
		}
	}()
	return w
}

func (w *line) copy(to io.Writer, from io.Reader) {
	_, _ = io.Copy(writer(func(b []byte) (int, error) {
		select {
		case <-w.silent:
			return len(b), nil
		default:
			return to.Write(b)
		}
	}), from)
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// silence has the line take bytes and forward none, without a reset.
func (w *line) silence() { close(w.silent) }

// cut closes all connections, and takes no others.
func (w *line) cut() {
	w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, end := range w.ends {
		end.Close()
	}
}
