package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// secrets must be in no archive.
var secrets = []string{"customers/4711", "hunter2hunter2", "eyJhbGciOiJIUzI1NiJ9abcdefghijklmnopqrstuvwxyz0123456789", "MIIEvQIBADANBg", "sim.tok.17"}

// logs are a program's log in both formats, with secrets, and lines of others.
func logs(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, log := range []*slog.Logger{slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil))} {
		log.Error("a write reached etcd past the gateways", "key", secrets[0], "revision", 17, "advice", "netcraq placement allow "+secrets[0])
		log.Warn("a read failed", "error", fmt.Errorf("get %q: %w", secrets[0], errors.New("no answer")), "node", "n1")
		log.Info("a call", "token", secrets[4], "value", secrets[1])
		log.WithGroup("request").Info("grouped", "key", secrets[0], "node", "n2")
	}
	fmt.Fprintf(&out, "Nov 26 17:00:00 h1 netcraq[7]: {\"level\":\"INFO\",\"msg\":\"in the journal\",\"key\":%q}\n", secrets[0])
	fmt.Fprintf(&out, "-----BEGIN PRIVATE KEY-----\n%s\nmore\n-----END PRIVATE KEY-----\n", secrets[3])
	fmt.Fprintf(&out, "Authorization: Bearer %s\n--password=%s\ntoken: %s\n", secrets[2], secrets[1], secrets[4])
	fmt.Fprintf(&out, "Authorization: Bearer %[1]s\n{\"authorization\": \"Basic %[1]s\"}\n", secrets[4])
	fmt.Fprintf(&out, "etcdctl --user root:%[1]s get a\ndial https://root:%[1]s@192.0.2.1:2379 failed\n", secrets[4])
	fmt.Fprintf(&out, "-----BEGIN EC PRIVATE KEY-----\n%s", secrets[3])
	return out.Bytes()
}

// TestRedact: secrets go, and what explains a fault stays.
func TestRedact(t *testing.T) {
	text := string(Redact(logs(t)))
	for _, s := range secrets {
		if strings.Contains(text, s) {
			t.Errorf("%s is left in:\n%s", s, text)
		}
	}
	for _, want := range []string{"a write reached etcd past the gateways", "revision=17", `"revision":17`, "no answer", "node=n1", `"node":"n2"`, "in the journal",
		"192.0.2.1:2379 failed"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in:\n%s", want, text)
		}
	}
}

// FuzzRedact: a key in a line of the product's log never stays, whatever it is made of.
func FuzzRedact(f *testing.F) {
	for _, key := range []string{"customers/4711", "a b", `a"b`, `a\`, "a=b", "a\nb", `key="x`} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		const mark = "zq7zq7"
		var out bytes.Buffer
		for _, log := range []*slog.Logger{slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil))} {
			log.Info("message", "node", "n1", "key", key+mark+key, "revision", 1)
		}
		if text := string(Redact(out.Bytes())); strings.Contains(text, mark) {
			t.Errorf("%q is left in %q", key, text)
		}
	})
}

// TestArchive packs a log that is longer than its bound, and reads the archive.
func TestArchive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.tar.gz")
	a, err := Create(path, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	const small = 64 << 10
	a.most = small
	log := append(bytes.Repeat([]byte("level=INFO msg=filler\n"), small/22+1), logs(t)...)
	if err := errors.Join(a.AddLog("logs/a.log", bytes.NewReader(log)), a.AddJSON("version.json", 1), a.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, time.Unix(1, 0)); !errors.Is(err, os.ErrExist) {
		t.Errorf("an archive is replaced: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := make(map[string]int)
	for r := tar.NewReader(zip); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		parts[header.Name] = len(text)
		for _, s := range secrets {
			if bytes.Contains(text, []byte(s)) {
				t.Errorf("%s has %s", header.Name, s)
			}
		}
	}
	if parts["s/logs/a.log"] == 0 || parts["s/logs/a.log"] > small || parts["s/notes.txt"] == 0 || parts["s/version.json"] == 0 {
		t.Errorf("%v", parts)
	}
}
