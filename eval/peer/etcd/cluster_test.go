package etcd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// build finds an etcd server or compiles the one in go.mod.
func build(t *testing.T) string {
	t.Helper()
	if path, err := Find(); err == nil {
		return path
	}
	path := filepath.Join(t.TempDir(), "etcd")
	if out, err := exec.Command("go", "build", "-o", path, "go.etcd.io/etcd/server/v3").CombinedOutput(); err != nil {
		t.Fatalf("build etcd: %v\n%s", err, out)
	}
	return path
}

func TestAClusterServesAndLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	o := Options{Binary: build(t), Members: 3}
	if os.Geteuid() == 0 {
		o.Share = 0.3
	} else if os.Getenv("CI") == "true" {
		t.Fatal("limiting CPU time needs root")
	}
	c, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	urls := c.Endpoints()
	if len(urls) != 3 {
		t.Errorf("endpoints %v", urls)
	}
	for _, url := range urls {
		response, err := http.Get(url + "/health")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.Contains(string(body), `"true"`) {
			t.Errorf("%s: %s, %v", url, body, err)
		}
	}
	if stats, err := c.Throttle(); err != nil || o.Share > 0 && len(stats) != 3 {
		t.Errorf("throttling %v, %v", stats, err)
	}
	if text := strings.Join(c.Settings(), "; "); !strings.Contains(text, "3 members") || !strings.Contains(text, "tmpfs") {
		t.Errorf("settings %q", text)
	}
	pid, dir := c.members[0].command.Process.Pid, c.dir
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
	if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("process %d is left: %v", pid, err)
	}
}

// TestAServerThatEndsIsExplained expects the last log lines of an ended member in the error.
func TestAServerThatEndsIsExplained(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "etcd")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho no such flag >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{Binary: binary, Members: 1}); err == nil ||
		!strings.Contains(err.Error(), "no such flag") {
		t.Errorf("got %v", err)
	}
	for name, o := range map[string]Options{
		"no members": {Binary: binary},
		"one site":   {Binary: binary, Members: 2, Sites: make([]Site, 1)},
		"no binary":  {Binary: binary + "x", Members: 1},
	} {
		if _, err := Start(t.Context(), o); err == nil {
			t.Errorf("%s: started", name)
		}
	}
}

func TestTheServerIsFound(t *testing.T) {
	t.Setenv(BinaryVariable, "")
	t.Setenv("PATH", "")
	dir := t.TempDir()
	below := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	if path, err := Find(); !errors.Is(err, ErrMissing) {
		t.Errorf("found %q, %v", path, err)
	}
	server := filepath.Join(dir, built)
	if err := errors.Join(os.Mkdir(filepath.Dir(server), 0o700), os.WriteFile(server, nil, 0o700)); err != nil {
		t.Fatal(err)
	}
	if path, err := Find(); err != nil || path != server {
		t.Errorf("found %q, %v", path, err)
	}
	t.Setenv(BinaryVariable, "/elsewhere")
	if path, err := Find(); err != nil || path != "/elsewhere" {
		t.Errorf("found %q, %v", path, err)
	}
}
