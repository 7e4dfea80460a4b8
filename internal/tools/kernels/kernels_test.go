package main

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// whole is the output of a machine without failures, between lines of its kernel.
const whole = `SeaBIOS
` + "\x1b[2J" + `@@ release 6.1.0-56-cloud-amd64
@@ begin processed
@@ output processed === RUN   TestProcessed    verified_test.go:38: {"nq_egress":500,"nq_ingress":400000}--- PASS: TestProcessed (1.2s)PASS
@@ end processed 0
@@ begin conformance
100,000 of 100,000 random packets agree
@@ output conformance {"passed": 208, "failed": 0, "skipped": 0, "random_packets": 100000}
@@ end conformance 0
@@ begin threads
@@ output threads PASS
@@ end threads 0
@@ begin check
@@ output check {"ops": 1611, "linearizable": true}
@@ end check 0
@@ done
`

// outcome returns the result that boot derives from a console.
func outcome(text string) *result {
	r := &result{ended: make(map[string]bool), dead: func() {}}
	r.read(strings.NewReader(text), func(string) {})
	if r.err == nil {
		r.err = r.unfinished()
	}
	return r
}

func TestConsole(t *testing.T) {
	r := outcome(whole)
	if r.err != nil {
		t.Fatal(r.err)
	}
	got := []string{r.release, r.mostProcessed(), r.vectors, r.random, r.threads, r.check}
	want := []string{"6.1.0-56-cloud-amd64", "400000", "208 of 208", "100000", "pass", "1611 ops, linearizable: true"}
	if !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
}

// A machine that did not do all its steps well has failed, and the error says which.
func TestConsoleOfFailure(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"status":      {"end threads 0", "end threads 1", `"threads" ended with status 1`},
		"panic":       {"@@ begin check", "[    0.0] Kernel panic - not syncing", "not syncing"},
		"no output":   {`{"ops": 1611, "linearizable": true}`, "", `step "check"`},
		"no counts":   {`{"nq_egress":500,"nq_ingress":400000}`, "", `step "processed"`},
		"not reached": {"@@ end check 0", "", `before the end of step "check"`},
		"not booted":  {whole, "", `before the end of step "processed"`},
	} {
		text := strings.Replace(whole, c.from, c.to, 1)
		if r := outcome(text); r.err == nil || !strings.Contains(r.err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want one with %q", name, r.err, c.want)
		}
	}
}

func TestSelected(t *testing.T) {
	if all, err := selected(""); err != nil || len(all) != len(kernels) {
		t.Errorf("nothing selects %v, %v", all, err)
	}
	if one, err := selected("6.12-arm64"); err != nil || len(one) != 1 || one[0].arch != "arm64" {
		t.Errorf("6.12-arm64 selects %v, %v", one, err)
	}
	if _, err := selected("6.1-amd64,5.10-amd64"); err == nil || !strings.Contains(err.Error(), "6.12-amd64") {
		t.Errorf("an unknown kernel: the error is %v, and does not name those there are", err)
	}
}

func TestCompareVersions(t *testing.T) {
	names := []string{"linux-image-6.12.90+deb12.1-x", "linux-image-6.12.117+deb12-x", "linux-image-6.12.9+deb12-x"}
	if got := slices.MaxFunc(names, compareVersions); got != names[1] {
		t.Errorf("the newest is %s", got)
	}
}

// The archive is one that others can read.
func TestArchive(t *testing.T) {
	reader, err := exec.LookPath("cpio")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs cpio, which CI installs: scripts/setup.sh test")
		}
		t.Skip("needs cpio: scripts/setup.sh test")
	}
	var b bytes.Buffer
	c := &cpio{w: &b}
	c.add("bin", 0o755, nil)
	c.add("init", 0o755, []byte("#!/bin/sh\n"))
	c.add("odd", 0o644, []byte("x"))
	c.add("TRAILER!!!", 0, nil)
	list := exec.Command(reader, "-t", "--quiet")
	list.Stdin = &b
	text, err := list.CombinedOutput()
	if err != nil || string(text) != "bin\ninit\nodd\n" {
		t.Errorf("cpio reads %q, %v", text, err)
	}
}

// TestArchives: the archives are those of the machine's own sources. Without sources the error names the variable to set.
func TestArchives(t *testing.T) {
	const mirror = "http://mirror.example"
	main, security, err := archives(mirror + "/other/\n" + mirror + "/debian/\n" + mirror + "/debian-security/\n")
	if err != nil || main != mirror+"/debian" || security != mirror+"/debian-security" {
		t.Errorf("%q, %q, %v", main, security, err)
	}
	if _, _, err := archives(mirror + "/debian/"); err == nil || !strings.Contains(err.Error(), "DEBIAN_MIRROR") {
		t.Errorf("without a security archive: %v", err)
	}
}
