package dashboard

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// TestTraceWrite: a write of the page goes down the chain of the key's shard, and leaves the key and no other as they were. A
// page that may not write refuses.
func TestTraceWrite(t *testing.T) {
	c, err := client.New(client.Options{Cluster: softchain.Start(t, 3, 64, 1000)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	ask := func(writes bool) (int, string) {
		t.Helper()
		s := New(Source{Writes: writes}, "")
		s.collector.client = &connect.Client{Client: c}
		server := httptest.NewServer(s.Handler())
		defer server.Close()
		answer, err := http.Post(server.URL+"/trace?key=k", "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	if status, text := ask(false); status != http.StatusForbidden || !strings.Contains(text, "--trace-writes") {
		t.Errorf("%d %s", status, text)
	}
	status, text := ask(true)
	var way traced
	if err := json.Unmarshal([]byte(text), &way); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s %v", status, text, err)
	}
	var did []string
	for _, s := range way.Path {
		did = append(did, s.Action)
	}
	at, err := c.Locate("k")
	if err != nil || at.Shard != way.Shard || way.Hops != 4 || strings.Join(did, ",") != ",ordered,applied,committed," {
		t.Errorf("the key is in shard %d: %s, %v", at.Shard, text, err)
	}
	if got, err := c.Get(t.Context(), "k"); err != nil || string(got.Value) != "v" || got.Version != 1 {
		t.Errorf("%+v %v", got, err)
	}
	own, err := besideKey(c, "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), own); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("%s is left: %v", own, err)
	}
}
