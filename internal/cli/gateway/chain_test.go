package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/local"
)

// free returns an address that nothing uses.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startEtcd runs an etcd until the test ends.
func startEtcd(t *testing.T) (url string) {
	t.Helper()
	m := &local.Member{Name: "m", Dir: t.TempDir(), Client: "http://" + free(t), Peer: "http://" + free(t)}
	m.Initial = "m=" + m.Peer
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for {
		answer, err := http.Get(m.Client + "/health")
		if err == nil {
			answer.Body.Close()
			return m.Client
		}
		runtime.Gosched() // it is not up yet
	}
}

// call calls etcd's JSON API and returns the answer.
func call(t *testing.T, url, method string, request map[string][]byte) string {
	t.Helper()
	body, err := json.Marshal(request) // bytes are encoded as the API wants them
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post(url+"/v3/kv/"+method, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s, %v", method, answer.Status, text, err)
	}
	return string(text)
}

func put(t *testing.T, url, key, value string) {
	t.Helper()
	call(t, url, "put", map[string][]byte{"key": []byte(key), "value": []byte(value)})
}

// started is a gateway that runs until stop.
type started struct {
	*lines
	ended chan error
	stop  func()
}

func start(t *testing.T, args ...string) *started {
	ctx, cancel := context.WithCancel(t.Context())
	s := &started{new(lines), make(chan error, 1), cancel}
	go func() {
		c := newGatewayCommand()
		c.SetArgs(append([]string{"--listen", "127.0.0.1:0"}, args...))
		c.SetErr(s.lines)
		s.ended <- c.ExecuteContext(ctx)
	}()
	return s
}

// says waits until the gateway's log has a text.
func (s *started) says(t *testing.T, text string) {
	t.Helper()
	select {
	case <-s.await(text):
	case err := <-s.ended:
		t.Fatalf("ended before it said %q: %v\n%s", text, err, s)
	}
}

// TestStartWithoutTheChain: a gateway whose controllers do not run serves from etcd, whether or not a gateway has used that etcd
// before, and reaches the chain when they do.
func TestStartWithoutTheChain(t *testing.T) {
	const host = "127.2.6.31"
	etcd, data := startEtcd(t), t.TempDir()
	flags := []string{"--etcd-endpoints", etcd, "--controllers", host}
	m := &clitest.Managed{T: t, Controller: host + ":4413", Nodes: make(map[string]*exec.Cmd)}
	up := func() (end func()) {
		controller := m.Run("controller", "controller", "--listen", host, "--data-dir", data,
			"--shards", "1", "--replicas", "1", "--form-with", "1")
		m.StartNode("n1", host+":4411")
		return func() {
			clitest.Kill(m.Nodes["n1"])
			clitest.Kill(controller)
		}
	}

	// serves starts a gateway without the chain, brings the chain up, and returns what ends both.
	serves := func(value string) (end func()) {
		g := start(t, flags...)
		g.says(t, "the chain does not answer")
		address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(g.String())
		if address == nil {
			t.Fatalf("no address:\n%s", g)
		}
		url := "http://" + address[1]
		put(t, url, "k", value)
		is := func() bool {
			answer := call(t, url, "range", map[string][]byte{"key": []byte("k")})
			return strings.Contains(answer, base64.StdEncoding.EncodeToString([]byte(value)))
		}
		if !is() {
			t.Errorf("%s: another value without the chain", value)
		}
		endChain := up()
		g.says(t, "the chain answers")
		g.says(t, "the chain requires no tags") // others can change what is read
		if !is() {
			t.Errorf("%s: another value with the chain", value)
		}
		return func() {
			g.stop()
			if err := <-g.ended; err != nil {
				t.Error(err)
			}
			endChain()
		}
	}
	serves("first")()
	serves("later")()
}

// TestAnotherChainLater: a gateway that has served without its chain ends if other gateways have another chain.
func TestAnotherChainLater(t *testing.T) {
	const host = "127.2.6.32"
	etcd := startEtcd(t)
	put(t, etcd, engine.OwnPrefix+"chain", engine.DirectoryFormat+" cluster another")
	g := start(t, "--etcd-endpoints", etcd, "--controllers", host)
	g.says(t, "the chain does not answer")
	clitest.StartManaged(t, host, "--shards", "1", "--replicas", "1", "--form-with", "1").StartNode("n1", host+":4411")
	if err := <-g.ended; err == nil || !strings.Contains(err.Error(), "another chain") {
		t.Errorf("%v", err)
	}
}
