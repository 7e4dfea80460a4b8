package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/pages"
	"github.com/netcraq/netcraq/internal/gateway/serve"
	"github.com/netcraq/netcraq/internal/platform/callerror"
	"github.com/netcraq/netcraq/internal/platform/metrics"
)

const (
	// pageTimeout is how long a page of etcd may take.
	pageTimeout = 5 * time.Second
	// healthTimeout is how long a read may take before etcd counts as not healthy.
	healthTimeout = time.Second
	// maxPageBytes bounds a page of etcd.
	maxPageBytes = 64 << 20
)

// api serves the pages, and etcd's calls as JSON.
func (s *Server) api(ctx context.Context) (http.Handler, error) {
	mux := s.pages(true)
	if err := serve.AddJSON(ctx, mux, s.own.Conn, s.options.MaxRequestBytes, s.memory); err != nil {
		return nil, err
	}
	return serve.AllowOrigins(mux), nil
}

// pages serves etcd's HTTP pages, and the gateway's own. If checked, all clients have shown the certificate that the
// gateway asks for, if it asks for one.
func (s *Server) pages(checked bool) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/version", s.passPage)
	mux.HandleFunc("/metrics", s.passPage)
	mux.HandleFunc("/health", s.health)
	mux.HandleFunc("/proxy/health", s.health)
	s.checks(mux)
	mux.Handle("/proxy/metrics", metrics.Handler(s.registry()))
	mux.HandleFunc(pages.PathKeys, s.guarded(checked, s.keys))
	mux.HandleFunc(pages.PathExplain, s.guarded(checked, s.explain))
	if s.options.Profiles {
		serve.AddProfiles(mux)
	}
	return mux
}

// passPage answers with the page of the first member that has one.
func (s *Server) passPage(w http.ResponseWriter, r *http.Request) {
	if s.asking.Acquire(r.Context(), 1) != nil {
		return // the client went away
	}
	defer s.asking.Release(1)
	client := &http.Client{Timeout: pageTimeout, Transport: &http.Transport{TLSClientConfig: s.etcd, DisableKeepAlives: true}}
	var failed error
	for _, e := range s.conn.members() {
		if e.url == "" {
			continue
		}
		from := "http://" + e.url
		if e.secured(s.etcd) {
			from = "https://" + e.url
		}
		request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, from+r.URL.Path, nil)
		if err == nil {
			err = copyPage(w, client, request)
		}
		if err == nil {
			return
		}
		failed = errors.Join(failed, err)
	}
	if failed == nil {
		failed = errors.New("no endpoint of etcd has pages: a Unix socket serves none")
	}
	http.Error(w, failed.Error(), http.StatusBadGateway)
}

// copyPage fails only before it has written anything.
func copyPage(w http.ResponseWriter, client *http.Client, request *http.Request) error {
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxPageBytes))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(body) // the client went away
	return nil
}

// health says whether etcd answers a linearizable read. A read that is not allowed was answered.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	answer := struct {
		Health string `json:"health"`
		Reason string `json:"reason"`
	}{Health: "true"}
	if err := s.healthy(r.Context()); err != nil {
		answer.Health, answer.Reason = "false", err.Error()
	}
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if answer.Health != "true" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(text) // the client went away
}

// checks serves /livez and /readyz. /livez does not ask etcd: a gateway that is started again helps no etcd.
func (s *Server) checks(mux *http.ServeMux) {
	serve.AddChecks(mux, "/livez", serve.Check{Name: "accepting", Run: func(ctx context.Context) error {
		return s.clients.Accepting().Run(ctx)
	}})
	read := func(local bool) func(context.Context) error {
		return func(ctx context.Context) error { return s.read(ctx, local) }
	}
	maintenance := pb.NewMaintenanceClient(s.conn)
	serve.AddChecks(mux, "/readyz",
		serve.Check{Name: "data_corruption", Run: asked(func(ctx context.Context) error {
			alarms, err := maintenance.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET, Alarm: pb.AlarmType_CORRUPT})
			if len(alarms.GetAlarms()) > 0 {
				err = errors.New("alarm activated: CORRUPT")
			}
			return err
		})},
		serve.Check{Name: "serializable_read", Run: asked(read(true))},
		serve.Check{Name: "linearizable_read", Run: asked(read(false))},
		serve.Check{Name: "non_learner", Run: asked(func(ctx context.Context) error {
			member, err := maintenance.Status(ctx, &pb.StatusRequest{})
			if member.GetIsLearner() {
				err = errors.New("the member that answers is a learner")
			}
			return err
		})},
	)
}

// asked bounds a question to etcd. A refusal is an answer, too.
func asked(question func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		err := question(ctx)
		switch status.Code(err) {
		case codes.PermissionDenied, codes.InvalidArgument, codes.Unauthenticated:
			return nil
		}
		return err
	}
}

// read reads a key of etcd.
func (s *Server) read(ctx context.Context, local bool) error {
	if err := s.checking.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.checking.Release(1)
	_, err := pb.NewKVClient(s.conn).Range(ctx, &pb.RangeRequest{Key: []byte("a"), CountOnly: true, Serializable: local})
	return err
}

// healthy returns the error of a linearizable read of etcd.
func (s *Server) healthy(ctx context.Context) error {
	return asked(func(ctx context.Context) error { return s.read(ctx, false) })(ctx)
}

// Oldest release of etcd that is served.
const oldestMajor, oldestMinor = 3, 5

// versionTimeout is how long etcd may take to tell its version.
const versionTimeout = 3 * time.Second

// checkVersion refuses an etcd that is too old. One that does not answer may come later.
func (s *Server) checkVersion(ctx context.Context) (answers bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	answer, err := pb.NewMaintenanceClient(s.conn).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		s.options.Log.Warn("etcd does not tell its version: is it running?", "etcd", s.options.Endpoints, "error", callerror.Text(err))
		code := status.Code(err)
		return code != codes.Unavailable && code != codes.DeadlineExceeded, nil
	}
	return true, recent(answer.Version)
}

// recent returns an error if gateways do not serve a version of etcd.
func recent(version string) error {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("etcd's version %q is not one: %w", version, err)
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return fmt.Errorf("etcd is version %s: the gateway needs %d.%d or later", version, oldestMajor, oldestMinor)
	}
	return nil
}
