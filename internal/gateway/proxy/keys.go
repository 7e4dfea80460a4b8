package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
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
	if s.caches(w) {
		writeJSON(w, s.cache.Hottest(most))
	}
}

// explain serves why a key is cached, or not.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	if s.caches(w) {
		writeJSON(w, s.cache.Explain(r.FormValue("key")))
	}
}

// caches answers with an error if this gateway has no cache.
func (s *Server) caches(w http.ResponseWriter) bool {
	if s.cache == nil {
		http.Error(w, "this gateway caches nothing: start it with --controllers or --cluster", http.StatusNotFound)
	}
	return s.cache != nil
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client went away
}
