package proxy

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/netcraq/netcraq/internal/gateway/engine"
)

// maxKeys bounds the keys of a page unless it is asked for more.
const maxKeys = 100

// keys serves the keys that clients use most.
func (s *Server) keys(w http.ResponseWriter, r *http.Request) {
	most := maxKeys
	if text := r.FormValue("most"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil || most < 1 {
			http.Error(w, "most="+text+": want a number from 1", http.StatusBadRequest)
			return
		}
	}
	writeJSON(w, s.cache.Hottest(most))
}

// explain serves why a key is cached, or not.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, s.cache.Explain(r.FormValue("key")))
}

// guarded answers with an error if this gateway has no cache, or the client may not see names of keys.
func (s *Server) guarded(checked bool, page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.asksUsers():
			http.Error(w, "etcd has authentication enabled, so this gateway caches nothing and shows no keys", http.StatusForbidden)
		case s.cache == nil:
			http.Error(w, "this gateway caches nothing: start it with --controllers or --cluster", http.StatusNotFound)
		case s.options.Clients.CA != "" && !checked && !fromLoopback(r) && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0):
			http.Error(w, "names of keys need a client's certificate: ask the port of --listen by https:// with --cert, --key "+
				"and --cacert, or a --metrics-addr from the gateway's machine, at its loopback address", http.StatusForbidden)
		default:
			page(w, r)
		}
	}
}

// asksUsers reports whether etcd is known to have authentication enabled. The gateway cannot tell which keys a user may see.
func (s *Server) asksUsers() bool {
	if s.cache == nil {
		return false
	}
	select {
	case <-s.cache.Gone():
		return errors.Is(s.cache.Why(), engine.ErrAuth)
	default:
		return false
	}
}

// fromLoopback reports whether a request comes from this machine.
func fromLoopback(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client went away
}
