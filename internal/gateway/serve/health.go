package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Check is one check of a page such as /readyz. Its name is a part of the answer.
type Check struct {
	Name string
	Run  func(context.Context) error
}

// AddChecks serves checks as etcd does: path runs them all but those that ?exclude names, path/NAME runs one, and
// ?verbose lists the results.
func AddChecks(mux *http.ServeMux, path string, checks ...Check) {
	mux.HandleFunc(path, checkPage(checks))
	for _, c := range checks {
		mux.HandleFunc(path+"/"+c.Name, checkPage([]Check{c}))
	}
}

func checkPage(checks []Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
			return
		}
		results, ok := runChecks(r.Context(), checks, r.URL.Query())
		if !ok {
			http.Error(w, results, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if !r.URL.Query().Has("verbose") {
			results = ""
		}
		_, _ = io.WriteString(w, results+"ok\n") // the client went away
	}
}

// runChecks runs the checks that the query does not exclude. A check by itself cannot be excluded.
func runChecks(ctx context.Context, checks []Check, query url.Values) (results string, ok bool) {
	var text strings.Builder
	ok = true
	for _, c := range checks {
		if len(checks) > 1 && slices.Contains(query["exclude"], c.Name) {
			continue
		}
		if err := c.Run(ctx); err != nil {
			ok = false
			fmt.Fprintf(&text, "[-]%s failed: %v\n", c.Name, err)
		} else {
			fmt.Fprintf(&text, "[+]%s ok\n", c.Name)
		}
	}
	return text.String(), ok
}

// stuckAfter is the default of [Server.StuckAfter].
const stuckAfter = 15 * time.Second

// Accepting is the check of /livez: it fails while connections have not been accepted for StuckAfter. Its page must be
// served on a listener of its own too, since this one serves no page then.
func (s *Server) Accepting() Check {
	return Check{"accepting", func(context.Context) error {
		if since := s.stuck.Load(); since != nil && time.Since(*since) > s.StuckAfter {
			return errors.New("no connection can be accepted")
		}
		return nil
	}}
}

// AllowOrigins answers with the CORS header that etcd has by default: pages of every origin may read the answers.
func AllowOrigins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Access-Control-Allow-Methods", "POST, GET, OPTIONS, PUT, DELETE")
		h.Add("Access-Control-Allow-Origin", "*")
		h.Add("Access-Control-Allow-Headers", "accept, content-type, authorization")
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusOK)
			return
		}
		next.ServeHTTP(w, r)
	})
}
