package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/wire"
)

func TestLatency(t *testing.T) {
	needRoot(t)
	r, err := Latency(t.Context(), LatencyOptions{
		NodeOptions: NodeOptions{Plane: "soft", Keys: 1, ValueBytes: 16}, Nodes: 2, Count: 50,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.ReadP50us <= 0 || r.ReadP99us < r.ReadP50us || r.WriteP50us <= 0 || r.EchoP50us <= 0 {
		t.Errorf("%+v", r)
	}
}

// TestSignalsDoNotEndARequest sends signals to the thread of a client that waits for an answer, as
// Go's runtime does to preempt threads. The client still receives the answer.
func TestSignalsDoNotEndARequest(t *testing.T) {
	const signals = 100
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	addr := server.LocalAddr().(*net.UDPAddr).AddrPort()
	c, err := newCaller(addr, addr, 16)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	patience := unix.Timeval{Sec: 600}
	if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		t.Fatal(err)
	}
	thread, ended := make(chan int), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		_, err := c.call(anEcho)
		ended <- err
	}()
	target := <-thread
	request := make([]byte, wire.MaxMessageBytes)
	n, client, err := server.ReadFromUDPAddrPort(request)
	if err != nil {
		t.Fatal(err)
	}
	for sent := 0; sent < signals; {
		select {
		case err := <-ended:
			t.Fatalf("after %d signals, before the answer: %v", sent, err)
		default:
		}
		if !waits(t, target) {
			runtime.Gosched()
			continue
		}
		if err := unix.Tgkill(os.Getpid(), target, unix.SIGURG); err != nil {
			t.Fatal(err)
		}
		sent++
	}
	if _, err := server.WriteToUDPAddrPort(request[:n], client); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// waits reports whether a thread of this process is in an interruptible wait.
func waits(t *testing.T, thread int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", thread))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" S"))
}
