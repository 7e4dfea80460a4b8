package kubernetes

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const apiServer = "https://192.0.2.10:6443"

// countable is a resource whose objects a test counts in.
type countable struct{ version, kind, collection string }

var (
	configMaps = countable{"v1", "ConfigMap", "/api/v1/namespaces/default/configmaps"}
	leases     = countable{"coordination.k8s.io/v1", "Lease", "/apis/coordination.k8s.io/v1/namespaces/default/leases"}
)

// counter counts in an annotation of an object that has no other writer. Each number that the API server has
// acknowledged must be read afterwards, until a greater one is written.
type counter struct {
	of           countable
	client       http.Client
	server       string
	token        string // empty: the client has a certificate
	acknowledged int
	tried        int // the greatest that may have been written
	lost         []string
	failed       int // requests without an answer, or with one of an API server that starts
}

// object is of any kind.
type object struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
}

const (
	countedName = "counted"
	countedIn   = "netcraq.test/number" // the annotation
)

func (o *object) set(number int) {
	o.Metadata["annotations"] = map[string]any{countedIn: strconv.Itoa(number)}
}

func (o *object) number() (int, error) {
	annotations, _ := o.Metadata["annotations"].(map[string]any)
	text, _ := annotations[countedIn].(string)
	return strconv.Atoi(text)
}

// countThrough counts while an event happens, and checks that nothing was lost.
func (c *cluster) countThrough(event string, in countable, f func()) {
	c.t.Helper()
	n := newCounter(c.t, in)
	n.run(c.t, event, f)
	c.kubectl("delete", in.kind, countedName)
}

// run counts while f runs, and checks that nothing was lost.
func (n *counter) run(t *testing.T, event string, f func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if !n.step(ctx) {
				<-time.After(retryPause)
			}
		}
	})
	ended := false
	defer func() {
		if !ended { // f has ended the test
			stop()
			done.Wait()
		}
	}()
	f()
	ended = true
	stop()
	done.Wait()
	await(t, "the last number", func() error { return n.check(t.Context()) })
	t.Logf("%s: counted to %d, %d requests repeated", event, n.acknowledged, n.failed)
	if len(n.lost) > 0 || n.acknowledged == 0 {
		t.Errorf("%s: %d numbers counted, lost: %v", event, n.acknowledged, n.lost)
	}
}

// newCounter makes an object that has 0.
func newCounter(t *testing.T, of countable) *counter {
	t.Helper()
	dir := filepath.Join("/run/netcraq/kubernetes", clusterName)
	tokens, err := os.ReadFile(filepath.Join(dir, "tokens.csv"))
	if err != nil {
		t.Fatal(err)
	}
	token, _, _ := strings.Cut(string(tokens), ",")
	n := &counter{of: of, server: apiServer, token: token}
	return newCounterAt(t, n, trusting(t, filepath.Join(dir, "apiserver.crt")))
}

// trusting is a configuration of clients that trust an authority.
func trusting(t *testing.T, authority string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatalf("%s has no certificate", authority)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func newCounterAt(t *testing.T, n *counter, security *tls.Config) *counter {
	t.Helper()
	n.client = http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: security}}
	t.Cleanup(n.client.CloseIdleConnections)
	o := &object{n.of.version, n.of.kind, map[string]any{"name": countedName}}
	o.set(0)
	await(t, "an object to count in", func() error {
		return n.write(t.Context(), http.MethodPost, n.of.collection, o)
	})
	return n
}

// step reads the number, and writes the next one. It reports whether that was acknowledged.
func (n *counter) step(ctx context.Context) bool {
	o, err := n.read(ctx)
	if err != nil {
		n.failed++
		return false
	}
	n.tried = n.acknowledged + 1
	o.set(n.tried)
	if err := n.write(ctx, http.MethodPut, n.object(), o); err != nil {
		n.failed++ // it may have been written nevertheless
		return false
	}
	n.acknowledged = n.tried
	return true
}

// read reads the object. Its number is the last one that was acknowledged, or a later one whose write had no answer.
func (n *counter) read(ctx context.Context) (*object, error) {
	text, err := n.do(ctx, http.MethodGet, n.object(), nil)
	if err != nil {
		return nil, err
	}
	o := new(object)
	if err := json.Unmarshal(text, o); err != nil {
		return nil, err
	}
	is, err := o.number()
	if err != nil || is < n.acknowledged || is > max(n.tried, n.acknowledged) {
		n.lost = append(n.lost, fmt.Sprintf("%d was acknowledged, %d tried, and the object is %s", n.acknowledged, n.tried,
			text))
	}
	n.acknowledged = is
	return o, nil
}

func (n *counter) object() string { return n.of.collection + "/" + countedName }

func (n *counter) write(ctx context.Context, method, path string, o *object) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = n.do(ctx, method, path, body)
	return err
}

func (n *counter) check(ctx context.Context) error {
	_, err := n.read(ctx)
	return err
}

func (n *counter) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, n.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if n.token != "" {
		request.Header.Set("Authorization", "Bearer "+n.token)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := n.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return text, err
}
