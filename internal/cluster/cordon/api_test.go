package cordon

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write writes the files of a service account, as Kubernetes replaces them.
func write(t *testing.T, account, token string, server *httptest.Server) {
	t.Helper()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, text := range map[string][]byte{"token": []byte(token), "ca.crt": authority} {
		if err := os.WriteFile(filepath.Join(account, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// serve answers requests with the token "good" as an API server with one cordoned machine does; tools/kubernetes has the
// test with a real one.
func serve(t *testing.T) *httptest.Server {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer good":
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"kind":"Status","message":"Unauthorized"}`)
		case r.URL.Path == "/api/v1/nodes" && r.URL.Query().Get("fieldSelector") == "spec.unschedulable=true":
			fmt.Fprint(w, `{"items":[{"metadata":{"name":"m1"}}]}`)
		case r.URL.Path == "/api/v1/nodes/m1":
			fmt.Fprint(w, `{"metadata":{"name":"m1"},"spec":{"unschedulable":true}}`)
		case r.URL.Path == "/api/v1/nodes/m2":
			fmt.Fprint(w, `{"metadata":{"name":"m2"},"spec":{}}`)
		case r.URL.Path == "/api/v1/nodes/secret":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","message":"nodes is forbidden"}`)
		case r.URL.Path == "/api/v1/nodes/web":
			fmt.Fprint(w, `<html>`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestMachines(t *testing.T) {
	account := t.TempDir()
	server := serve(t)
	a, err := New(server.URL, account)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Cordoned(t.Context()); err == nil || !strings.Contains(err.Error(), "no token") {
		t.Errorf("without an account: %v", err)
	}
	write(t, account, "old", server)
	if _, err := a.Cordoned(t.Context()); err == nil || !strings.Contains(err.Error(), "does not accept the token") {
		t.Errorf("with an old token: %v", err)
	}
	write(t, account, "good\n", server)
	if names, err := a.Cordoned(t.Context()); err != nil || !slices.Equal(names, []string{"m1"}) {
		t.Errorf("%q, %v", names, err)
	}
	for name, want := range map[string][2]bool{"m1": {true, true}, "m2": {true, false}, "m3": {}} {
		if exists, cordoned, err := a.Machine(t.Context(), name); err != nil || [2]bool{exists, cordoned} != want {
			t.Errorf("%s: exists %t, cordoned %t, %v", name, exists, cordoned, err)
		}
	}
	for name, want := range map[string]string{"secret": "needs the rights to get and to list nodes", "web": "as an API server"} {
		if _, _, err := a.Machine(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	server.Close()
	if _, err := a.Cordoned(t.Context()); err == nil {
		t.Error("a server that is away answers")
	}
}

func TestWrongServers(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, url := range []string{"", "http://192.0.2.10:6443", "192.0.2.10", Service} {
		if _, err := New(url, Account); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "192.0.2.10")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if a, err := New(Service, Account); err != nil || a.url != "https://192.0.2.10:443" {
		t.Errorf("%+v, %v", a, err)
	}
}
