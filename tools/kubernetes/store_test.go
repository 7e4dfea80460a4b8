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

const (
	apiServer = "https://192.0.2.10:6443"
	counted   = "/api/v1/namespaces/default/configmaps/counted"
)

// counter counts in a ConfigMap that has no other writer. Each number that the API server has acknowledged must be read
// afterwards, until a greater one is written.
type counter struct {
	client       http.Client
	token        string
	acknowledged int
	tried        int // the greatest that may have been written
	lost         []string
	failed       int // requests without an answer, or with one of an API server that starts
}

// configMap has the fields that the counter uses.
type configMap struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]any    `json:"metadata"`
	Data       map[string]string `json:"data"`
}

// countThrough counts while an event happens, and checks that nothing was lost.
func (c *cluster) countThrough(event string, f func()) {
	c.t.Helper()
	n := newCounter(c.t)
	c.kubectl("create", "configmap", "counted", "--from-literal=number=0")
	ctx, stop := context.WithCancel(c.t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if !n.step(ctx) {
				<-time.After(retryPause)
			}
		}
	})
	f()
	stop()
	done.Wait()
	c.await("the last number", func() error { return n.check(c.t.Context()) })
	c.t.Logf("%s: counted to %d, %d requests repeated", event, n.acknowledged, n.failed)
	if len(n.lost) > 0 || n.acknowledged == 0 {
		c.t.Errorf("%s: %d numbers counted, lost: %v", event, n.acknowledged, n.lost)
	}
	c.kubectl("delete", "configmap", "counted")
}

func newCounter(t *testing.T) *counter {
	dir := filepath.Join("/run/netcraq/kubernetes", clusterName)
	cert, err := os.ReadFile(filepath.Join(dir, "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := os.ReadFile(filepath.Join(dir, "tokens.csv"))
	if err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(cert)
	token, _, _ := strings.Cut(string(tokens), ",")
	return &counter{token: token, client: http.Client{Timeout: 30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS13}}}}
}

// step reads the number, and writes the next one. It reports whether that was acknowledged.
func (n *counter) step(ctx context.Context) bool {
	object, err := n.read(ctx)
	if err != nil {
		n.failed++
		return false
	}
	n.tried = n.acknowledged + 1
	object.Data["number"] = strconv.Itoa(n.tried)
	body, err := json.Marshal(object)
	if err != nil {
		n.lost = append(n.lost, err.Error())
		return false
	}
	if _, err := n.do(ctx, http.MethodPut, body); err != nil {
		n.failed++ // it may have been written nevertheless
		return false
	}
	n.acknowledged = n.tried
	return true
}

// read reads the object. Its number is the last one that was acknowledged, or a later one whose write had no answer.
func (n *counter) read(ctx context.Context) (*configMap, error) {
	text, err := n.do(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	object := new(configMap)
	if err := json.Unmarshal(text, object); err != nil {
		return nil, err
	}
	is, err := strconv.Atoi(object.Data["number"])
	if err != nil || is < n.acknowledged || is > max(n.tried, n.acknowledged) {
		n.lost = append(n.lost, fmt.Sprintf("%d was acknowledged, %d tried, and the object has %q", n.acknowledged, n.tried,
			object.Data["number"]))
	}
	n.acknowledged = is
	return object, nil
}

func (n *counter) check(ctx context.Context) error {
	_, err := n.read(ctx)
	return err
}

func (n *counter) do(ctx context.Context, method string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, apiServer+counted, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+n.token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := n.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return text, err
}
