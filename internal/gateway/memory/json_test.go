package memory

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// jsonCalls are calls in JSON, in an order in which each finds what those before it have left. Keys and values are in
// base64.
var jsonCalls = []struct{ path, body string }{
	{"/v3/kv/range", `{"key":"a2V5"}`},
	{"/v3/kv/put", `{"key":"a2V5","value":"MQ=="}`},
	{"/v3/kv/put", `{"key":"a2V5","value":"Mg==","prev_kv":true}`},
	{"/v3beta/kv/put", `{"key":"a2V6","value":"Mw=="}`},
	{"/v3/kv/range", `{"key":"a2V5"}`},
	{"/v3/kv/range", `{"key":"a2V5","range_end":"a2V7","limit":"1"}`},
	{"/v3/kv/range", `{"key":"a2V5","range_end":"a2V7","sort_order":"DESCEND","sort_target":"KEY","keys_only":true}`},
	{"/v3/kv/range", `{"key":"a2V5","revision":2}`},
	{"/v3/kv/range", `{"key":"a2V5","revision":99}`},
	{"/v3/kv/range", `{"key":""}`},
	{"/v3/kv/range", `{"key":"not base64!"}`},
	{"/v3/kv/range", `{"key":`},
	{"/v3/kv/range", `{"unknown":1,"key":"a2V5","count_only":true}`},
	{"/v3/kv/put", `{"key":"bm8=","lease":7}`},
	{"/v3/kv/txn", `{"compare":[{"result":"EQUAL","target":"VALUE","key":"a2V5","value":"Mg=="}],
		"success":[{"request_put":{"key":"a2V5","value":"NA=="}},{"request_range":{"key":"a2V5"}}],
		"failure":[{"request_delete_range":{"key":"a2V5"}}]}`},
	{"/v3/kv/txn", `{"success":[{"request_put":{"key":"YQ=="}},{"request_put":{"key":"YQ=="}}]}`},
	{"/v3/lease/grant", `{"TTL":600,"ID":209}`},
	{"/v3/lease/grant", `{"TTL":600,"ID":209}`},
	{"/v3/kv/put", `{"key":"bGVhc2Vk","value":"NQ==","lease":"209"}`},
	{"/v3/lease/keepalive", `{"ID":209}`},
	{"/v3/lease/leases", `{}`},
	{"/v3/kv/lease/leases", `{}`},
	{"/v3/lease/timetolive", `{"ID":210}`},
	{"/v3/lock/lock", `{"name":"bG9jaw==","lease":209}`},
	{"/v3/lock/unlock", `{"key":"bG9jay9kMQ=="}`},
	{"/v3/election/campaign", `{"name":"c2VhdA==","lease":209,"value":"MQ=="}`},
	{"/v3/election/leader", `{"name":"c2VhdA=="}`},
	{"/v3/election/leader", `{"name":"bm9uZQ=="}`},
	{"/v3/lease/revoke", `{"ID":209}`},
	{"/v3/lease/revoke", `{"ID":209}`},
	{"/v3/kv/deleterange", `{"key":"a2V5","range_end":"a2V7","prev_kv":true}`},
	{"/v3/kv/compaction", `{"revision":3}`},
	{"/v3/kv/compaction", `{"revision":3}`},
	{"/v3/kv/range", `{"key":"a2V5","revision":2}`},
	{"/v3/auth/status", `{}`},
	{"/v3/kv/nothing", `{}`},
	{"/v3/nothing", ``},
}

// TestJSONAsEtcd: calls in JSON have etcd's answers, but for the numbers of the cluster, of the member and of the term.
func TestJSONAsEtcd(t *testing.T) {
	etcd := etcdtest.Start(t, 1, nil).Members[0].ClientURL()
	cluster := startChain(t)
	a := start(t, cluster, Options{FirstRevision: 1})
	a.waitActive(t)
	b := start(t, cluster, Options{})
	for i, call := range jsonCalls {
		at := []*gateway{a, b}[i%2]
		want, got := posted(t, etcd, call.path, call.body), posted(t, "http://"+at.address, call.path, call.body)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s: other than etcd's (-):\n%s", call.path, call.body, diff)
		}
	}
	for _, path := range []string{"/v3/cluster/member/list", "/v3/maintenance/status"} {
		if r := posted(t, "http://"+b.address, path, "{}"); r.Status != http.StatusOK {
			t.Errorf("%s: %v", path, r)
		}
	}
}

// TestJSONWithTokens: the token that a user got in JSON is taken from the header Authorization, as at an etcd.
func TestJSONWithTokens(t *testing.T) {
	etcd := etcdtest.Start(t, 1, nil).Members[0].ClientURL()
	a := start(t, startChain(t), Options{FirstRevision: 1})
	a.waitActive(t)
	answers := func(address string) (all []jsonAnswer) {
		for _, call := range [][2]string{
			{"user/add", `{"name":"root","password":"pw"}`}, {"role/add", `{"name":"root"}`},
			{"user/grant", `{"user":"root","role":"root"}`}, {"user/add", `{"name":"alice","password":"pw"}`},
			{"enable", `{}`},
		} {
			all = append(all, posted(t, address, "/v3/auth/"+call[0], call[1]))
		}
		token := func(user string) string {
			r := posted(t, address, "/v3/auth/authenticate", `{"name":"`+user+`","password":"pw"}`)
			fields, _ := r.Body.(map[string]any)
			text, _ := fields["token"].(string)
			return text
		}
		for _, token := range []string{token("root"), token("alice"), "none.1", ""} {
			for _, call := range [][2]string{
				{"/v3/kv/put", `{"key":"aw==","value":"MQ=="}`}, {"/v3/kv/range", `{"key":"aw=="}`}, {"/v3/auth/user/list", `{}`},
			} {
				all = append(all, postedAs(t, token, address, call[0], call[1]))
			}
		}
		return all
	}
	want := answers(etcd)
	refused := func(a jsonAnswer) bool { return a.Status != http.StatusOK }
	if accepted := slices.DeleteFunc(slices.Clone(want), refused); len(accepted) != 8 {
		t.Errorf("etcd accepts %d calls: %v", len(accepted), want)
	}
	if diff := cmp.Diff(want, answers("http://"+a.address)); diff != "" {
		t.Errorf("other than etcd's (-):\n%s", diff)
	}
}

// jsonAnswer is the answer to a call in JSON.
type jsonAnswer struct {
	Status int
	Type   string
	Text   string // if it is not in JSON
	Body   any
}

func post(t *testing.T, url, body string) *http.Response {
	t.Helper()
	return postAs(t, "", url, body)
}

// postAs posts with a token; empty: without.
func postAs(t *testing.T, token, url, body string) *http.Response {
	t.Helper()
	r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	return must(http.DefaultClient.Do(r))(t)
}

func posted(t *testing.T, address, path, body string) jsonAnswer {
	t.Helper()
	return postedAs(t, "", address, path, body)
}

func postedAs(t *testing.T, token, address, path, body string) jsonAnswer {
	t.Helper()
	r := postAs(t, token, address+path, body)
	defer r.Body.Close() //nolint:errcheck // it was read
	text := must(io.ReadAll(r.Body))(t)
	a := jsonAnswer{Status: r.StatusCode, Type: r.Header.Get("Content-Type")}
	if json.Unmarshal(text, &a.Body) != nil {
		a.Text = string(text)
	}
	withoutNumbers(a.Body)
	return a
}

// withoutNumbers removes what differs between two clusters.
func withoutNumbers(v any) {
	fields, _ := v.(map[string]any)
	for name, field := range fields {
		switch name {
		case "cluster_id", "member_id", "raft_term":
			delete(fields, name)
		default:
			withoutNumbers(field)
		}
	}
}

// TestWatchInJSON: a watch is a stream of lines.
func TestWatchInJSON(t *testing.T) {
	_, b := pair(t)
	r := post(t, "http://"+b.address+"/v3/watch", `{"create_request":{"key":"aw=="}}`)
	defer r.Body.Close() //nolint:errcheck // the test has read what it wants
	lines := bufio.NewScanner(r.Body)
	next := func() (line struct {
		Result struct {
			Created bool
			Events  []struct{ Kv struct{ Key, Value []byte } }
		}
	}) {
		if !lines.Scan() {
			t.Fatalf("the watch ended: %v", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		return line
	}
	if l := next(); !l.Result.Created {
		t.Errorf("%v", l)
	}
	must(open(t, b.address).Put(t.Context(), "k", "v"))(t)
	if l := next(); len(l.Result.Events) != 1 || string(l.Result.Events[0].Kv.Value) != "v" {
		t.Errorf("%v", l)
	}
	b.stop()
	for lines.Scan() {
		if !strings.Contains(lines.Text(), `"error"`) {
			t.Errorf("after the gateway's end: %s", lines.Text())
		}
	}
}

// TestBodiesAreBounded: a call in JSON that is too large is refused before it is read.
func TestBodiesAreBounded(t *testing.T) {
	a := start(t, startChain(t), Options{MaxRequestBytes: 1000})
	a.waitActive(t)
	body := `{"key":"aw==","value":"` + strings.Repeat("A", 1<<20) + `"}`
	if r := posted(t, "http://"+a.address, "/v3/kv/put", body); r.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("%v", r)
	}
}
