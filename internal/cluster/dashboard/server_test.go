package dashboard

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestGuard: other sites get nothing, by whatever name they reach the server.
func TestGuard(t *testing.T) {
	server := httptest.NewServer(New(Source{}, "ops.example").Handler())
	defer server.Close()
	for _, c := range []struct {
		path, host, site, mode string
		status                 int
	}{
		{"/", "", "", "", http.StatusOK},
		{"/page.js", "localhost:80", "same-origin", "no-cors", http.StatusOK},
		{"/style.css", "ops.example:4420", "same-origin", "", http.StatusOK},
		{"/icon.svg", "[::1]:4420", "", "", http.StatusOK},
		{"/document.json", "192.0.2.1", "none", "", http.StatusOK},
		{"/", "attacker.example", "", "", http.StatusMisdirectedRequest},
		{"/document.json", "attacker.example:4420", "same-origin", "", http.StatusMisdirectedRequest},
		{"/", "", "cross-site", "navigate", http.StatusOK},
		{"/", "", "cross-site", "no-cors", http.StatusForbidden},
		{"/trace?key=a", "", "cross-site", "navigate", http.StatusForbidden},
		{"/document.json", "", "same-site", "cors", http.StatusForbidden},
		{"/other", "", "", "", http.StatusNotFound},
		{"/trace?key=a", "", "", "", http.StatusServiceUnavailable},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = c.host
		request.Header.Set("Sec-Fetch-Site", c.site)
		request.Header.Set("Sec-Fetch-Mode", c.mode)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.status || !strings.HasPrefix(answer.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self';") ||
			answer.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%+v: %s %v", c, answer.Status, answer.Header)
		}
	}
	answer, err := http.Post(server.URL+"/document.json", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Error(answer.Status)
	}
}

// TestEvents: a browser gets the document at once and again when it changes, with each change once; others are refused
// while too many follow.
func TestEvents(t *testing.T) {
	s := New(Source{}, "")
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer := follow(ctx, t, server)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func() string {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return text
			}
		}
		t.Fatal(lines.Err())
		return ""
	}
	if text := next(); !strings.HasPrefix(text, `{"schema":1,`) {
		t.Error(text)
	}
	s.collector.update(func(v *View) { v.Map = mapOf([]int{0, 1}) })
	if text := next(); !strings.Contains(text, `"shards":"0"`) {
		t.Error(text)
	}
	for range keptEvents {
		s.collector.update(func(v *View) { v.Map = mapOf([]int{0, 1, 2}) })
		s.collector.update(func(v *View) { v.Map = mapOf([]int{0, 1}) })
	}
	s.collector.mu.Lock()
	events := s.collector.events
	s.collector.mu.Unlock()
	if len(events) != keptEvents || events[0].Number != keptEvents+1 || events[keptEvents-1].Number != 2*keptEvents {
		t.Errorf("%d events, from %d", len(events), events[0].Number)
	}
	for range maxStreams - 1 {
		s.streams <- struct{}{}
	}
	refused, err := http.Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	refused.Body.Close()
	if refused.StatusCode != http.StatusServiceUnavailable {
		t.Error(refused.Status)
	}
}

// follow opens the stream of documents, as a page does.
func follow(ctx context.Context, t *testing.T, server *httptest.Server) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
