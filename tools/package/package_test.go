package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/product"
)

const root = "../.."

// packed packs this test's own program as the product's, and returns the directory.
func packed(t *testing.T) string {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "amd64"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(dir, "amd64", name), self, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := release{root: root, version: "0.1.0", time: time.Unix(1_790_000_000, 0).UTC(), dir: dir}
	if err := r.pack([]string{"amd64"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSameBytes packs twice.
func TestSameBytes(t *testing.T) {
	var sums [2]string
	for i := range sums {
		text, err := os.ReadFile(filepath.Join(packed(t), "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != 1+len(programs) {
		t.Errorf("two packages of the same files:\n%s%s", sums[0], sums[1])
	}
}

// TestContents lists what dpkg finds in a package.
func TestContents(t *testing.T) {
	out, err := exec.Command("dpkg-deb", "--contents", filepath.Join(packed(t), "netcraq_0.1.0_amd64.deb")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, path := range []string{
		"/usr/bin/netcraq", "/usr/bin/netcraq-cni", "/lib/systemd/system/netcraq-node.service",
		"/lib/systemd/system/netcraq-controller.service", "/lib/systemd/system/netcraq-gateway.service",
		"/lib/systemd/system/netcraq-etcd.service", "/lib/systemd/system/netcraq-keyspace.service", "/etc/netcraq/node.yaml",
		"/etc/netcraq/controller.yaml", "/etc/netcraq/gateway.yaml", "/etc/netcraq/keyspace.yaml",
		"/etc/netcraq/etcd.env", "/usr/share/man/man1/netcraq-node.1.gz", "/usr/share/bash-completion/completions/netcraq",
		"/usr/share/doc/netcraq/copyright", "/usr/share/doc/netcraq/install.md", "/usr/share/doc/netcraq/dashboard.json",
		"/usr/share/netcraq/local-reads.conf",
	} {
		if !strings.Contains(string(out), " ."+path+"\n") {
			t.Errorf("the package has no %s:\n%s", path, out)
		}
	}
}

// TestConfigurationsAreValid: the product takes each configuration file, also with every line that is a comment there. It
// refuses names that it does not know, so each is a flag.
func TestConfigurationsAreValid(t *testing.T) {
	for name, set := range settings {
		for _, all := range []bool{false, true} {
			tree := cli.ProductRoot(product.Commands()...)
			c, _, err := tree.Find([]string{name})
			if err != nil {
				t.Fatal(err)
			}
			text := configuration(c, set)
			if all {
				text = withComments(text)
			}
			path := filepath.Join(t.TempDir(), name+".yaml")
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			ran := false
			c.RunE = func(c *cobra.Command, _ []string) error {
				ran = true
				for flag, want := range set {
					if got := c.Flag(flag).Value.String(); got != want {
						t.Errorf("%s: --%s is %q, want %q", name, flag, got, want)
					}
				}
				return nil
			}
			tree.SetArgs([]string{name, "--config", path})
			if err := tree.Execute(); err != nil || !ran {
				t.Errorf("%s, all lines %v: %v", name, all, err)
			}
		}
	}
}

// withComments makes lines of the comments that are ones: `#name: value`, unless the value is empty.
func withComments(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "# ") && !strings.HasSuffix(line, `: ""`+"\n") {
			line = line[1:]
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// TestUnits has systemd check the units, with a program that is there, and with the drop-in for reads on the same machine.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	units, err := filepath.Glob(filepath.Join(root, "deploy/systemd/*.service"))
	if err != nil || len(units) != 5 {
		t.Fatalf("%q, %v", units, err)
	}
	dir := t.TempDir()
	dropIn, err := os.ReadFile(filepath.Join(root, "deploy/systemd/local-reads.conf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range units {
		d := filepath.Join(dir, filepath.Base(unit)+".d")
		if err := errors.Join(os.Mkdir(d, 0o755), os.WriteFile(filepath.Join(d, "local-reads.conf"), dropIn, 0o644)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		here := strings.ReplaceAll(string(text), "/usr/bin/netcraq ", "/bin/true ")
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(unit)), []byte(here), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", filepath.Join(dir, filepath.Base(unit))).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", filepath.Base(unit), err, out)
		}
	}
}
