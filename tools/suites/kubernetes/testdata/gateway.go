// This file is compiled into Kubernetes' package testserver, and makes the client of each etcd a client of a gateway in
// front of that etcd.
package testserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
)

const (
	// maxPlaced is how many keys of one etcd are placed before their first use. Some tests use thousands.
	maxPlaced = 32
	// maxReads bounds the reads after which a key should have its place. A key with a lease gets none.
	maxReads  = 40
	readPause = 25 * time.Millisecond
)

// probed are keys that tests read or write to learn or increase the revision.
var probed = []string{"compact_rev_key", "increaseRV", "/pods/", "/registry/pods/", "/somekey"}

// identified gives each etcd a name of its own. The identity of a cluster has the number of its port otherwise, and
// ports are used again.
func identified(cfg *embed.Config) *embed.Config {
	cfg.InitialClusterToken = cfg.Dir
	return cfg
}

// gateway is a gateway in front of one etcd.
type gateway struct {
	urls  []string
	pages *http.Client // nil: there is no gateway, or it is that of a memory keyspace

	mu   sync.Mutex
	used map[string]bool // keys
}

// startGateway starts $NETCRAQ, if it is set, as the gateway of an etcd until the test ends. Its chain is that of the
// cluster file $NETCRAQ_CHAIN. With $NETCRAQ_MEMORY it is instead the gateway of a keyspace in the memory of a chain of
// its own, and the etcd is not used; nor is it with $NETCRAQ_MEMBER: see [startMember].
func startGateway(t testing.TB, cfg *embed.Config, etcd []string) *gateway {
	program := os.Getenv("NETCRAQ")
	if program == "" {
		if os.Getenv("NETCRAQ_WRITES") != "" {
			write(t, etcd)
		}
		return &gateway{urls: etcd}
	}
	if os.Getenv("NETCRAQ_MEMBER") != "" {
		return &gateway{urls: []string{startMember(t, program, cfg)}}
	}
	g, arguments := new(gateway), []string{"gateway", "--log-format=json", "--listen", "127.0.0.1:0"}
	if os.Getenv("NETCRAQ_MEMORY") != "" {
		arguments = append(arguments, "--memory", "--cluster", startChain(t, program), "--first-revision", "1")
		if every := cfg.WatchProgressNotifyInterval; every > 0 {
			arguments = append(arguments, "--watch-progress-notify-interval", every.String())
		}
	} else {
		g.pages, g.used = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, make(map[string]bool)
		arguments = append(arguments, "--cluster", os.Getenv("NETCRAQ_CHAIN"), "--pin", "/")
		for _, url := range etcd {
			arguments = append(arguments, "--endpoints", url)
		}
	}
	command := exec.Command(program, arguments...)
	output, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	log, address := new(bytes.Buffer), make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(address)
		follow(output, log, address)
	}()
	t.Cleanup(func() {
		if len(g.urls) > 0 && g.pages != nil {
			t.Logf("gateway: %d reads from the chain", g.hits())
		}
		command.Process.Signal(syscall.SIGTERM)
		<-read
		if err := command.Wait(); err != nil || t.Failed() {
			t.Errorf("gateway: %v\n%s", err, log)
		}
	})
	at, ok := <-address
	if !ok {
		t.Fatalf("the gateway did not start: %s", log)
	}
	g.urls = []string{"http://" + at}
	if g.pages == nil {
		awaitPage(t, g.urls[0]+"/health", func(code int, _ []byte) bool { return code == http.StatusOK })
	}
	g.place(t.Context(), slices.DeleteFunc(slices.Clone(probed), g.wasUsed)...) // none in a memory keyspace
	return g
}

// awaitPage waits until a page shows what a test needs.
func awaitPage(t testing.TB, url string, shows func(code int, text []byte) bool) {
	for {
		answer, err := http.Get(url)
		if err == nil {
			var text []byte
			text, err = io.ReadAll(answer.Body)
			answer.Body.Close()
			if err == nil && shows(answer.StatusCode, text) {
				return
			}
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s does not show what the test needs: %v", url, err)
		case <-time.After(readPause):
		}
	}
}

var clusterFile = regexp.MustCompile(`cluster file is (\S+)\.`)

// startChain starts a chain that ends with the test, and returns its cluster file.
func startChain(t testing.TB, program string) string {
	up := exec.Command(program, "up", "--plane", "soft")
	up.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	printed, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		up.Process.Signal(syscall.SIGINT)
		if err := up.Wait(); err != nil {
			t.Errorf("netcraq up: %v", err)
		}
	})
	for lines := bufio.NewScanner(printed); lines.Scan(); {
		if found := clusterFile.FindStringSubmatch(lines.Text()); found != nil {
			return found[1]
		}
	}
	t.Fatal("netcraq up named no cluster file")
	return ""
}

// write writes to an etcd as often as a gateway does before the tests begin.
func write(t testing.TB, etcd []string) {
	other, err := clientv3.New(clientv3.Config{Endpoints: etcd})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for range 3 * len(probed) {
		if _, err := other.Put(t.Context(), "/netcraq/gateway/write", ""); err != nil {
			t.Fatal(err)
		}
	}
}

// follow copies a gateway's log, and sends the address that it serves.
func follow(output io.Reader, log *bytes.Buffer, address chan<- string) {
	for lines := bufio.NewScanner(output); lines.Scan(); {
		log.Write(append(lines.Bytes(), '\n'))
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "started gRPC proxy" {
			address <- line.Address
		}
	}
}

// option has a client place objects before it uses them. A placement writes to etcd, and the tests expect that the
// revision counts their own writes.
func (g *gateway) option() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(g.intercept)
}

func (g *gateway) intercept(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	o ...grpc.CallOption,
) error {
	g.place(ctx, slices.DeleteFunc(keys(request), g.wasUsed)...)
	return invoke(ctx, method, request, reply, conn, o...)
}

// wasUsed reports whether a key was used before, or whether enough keys were.
func (g *gateway) wasUsed(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pages == nil || g.used[key] || len(g.used) == maxPlaced {
		return true
	}
	g.used[key] = true
	return false
}

// place reads keys until they have their places.
func (g *gateway) place(ctx context.Context, keys ...string) {
	for n := 0; len(keys) > 0 && n < maxReads; n++ {
		for _, key := range keys {
			g.read(ctx, key)
		}
		keys = slices.DeleteFunc(keys, g.has)
		select {
		case <-ctx.Done():
			return
		case <-time.After(readPause):
		}
	}
}

// keys lists the keys that a request names one by one.
func keys(request any) (list []string) {
	switch r := request.(type) {
	case *pb.RangeRequest:
		if len(r.RangeEnd) == 0 {
			list = append(list, string(r.Key))
		}
	case *pb.PutRequest:
		list = append(list, string(r.Key))
	case *pb.TxnRequest:
		for _, c := range r.Compare {
			list = append(list, string(c.Key))
		}
	}
	return list
}

// has reports whether a key has its place.
func (g *gateway) has(key string) bool {
	var explanation struct{ Placed bool }
	err := json.Unmarshal(g.page("/proxy/explain?key="+url.QueryEscape(key)), &explanation)
	return err == nil && explanation.Placed
}

// hits is how many reads the chain answered.
func (g *gateway) hits() (n int) {
	for _, line := range bytes.Split(g.page("/proxy/metrics"), []byte("\n")) {
		if found, _ := fmt.Sscanf(string(line), "netcraq_gateway_hits_total %d", &n); found == 1 {
			return n
		}
	}
	return 0
}

// page returns a page of the gateway. Without one the key counts as not placed, and no read as answered.
func (g *gateway) page(path string) []byte {
	answer, err := g.pages.Get(g.urls[0] + path)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return text
}

// read reads a key. Its answer does not matter.
func (g *gateway) read(ctx context.Context, key string) {
	body, _ := json.Marshal(map[string][]byte{"key": []byte(key)}) // never fails
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.urls[0]+"/v3/kv/range", bytes.NewReader(body))
	if err != nil {
		return
	}
	if answer, err := g.pages.Do(request); err == nil {
		answer.Body.Close()
	}
}
