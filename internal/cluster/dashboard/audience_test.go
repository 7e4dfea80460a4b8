package dashboard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Nodes and gateways are asked while a page follows, and for a while after a document was fetched.
func TestAudience(t *testing.T) {
	s := New(Source{}, "")
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	a, now := s.collector.audience, time.Now()
	if looks, _ := a.looks(now); looks {
		t.Error("somebody looks before anybody came")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if a.await(ended) {
		t.Error("an ended wait found somebody")
	}
	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	defer leave()
	answer := follow(ctx, t, server)
	if !a.await(ctx) {
		t.Error("a page that follows does not count")
	}
	answer.Body.Close()
	for looks := true; looks && ctx.Err() == nil; { // the server notices the end when it sends
		s.collector.update(func(*View) {})
		looks, _ = a.looks(now)
	}
	if ctx.Err() != nil {
		t.Error("a page that left still counts")
	}
	answer, err := http.Get(server.URL + "/document.json")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if looks, _ := a.looks(now); !looks {
		t.Error("a document was fetched, and nobody looks")
	}
	if looks, _ := a.looks(time.Now().Add(glanceFor)); looks {
		t.Errorf("somebody looks %v after the last document", glanceFor)
	}
}
