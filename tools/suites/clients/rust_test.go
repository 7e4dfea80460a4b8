package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

const (
	crate        = "etcd-client"
	crateVersion = "0.21.1"
)

var rust = client{
	name: crate, version: crateVersion, own: true,
	failures: rustFailures,
	prepare:  prepareRust,
	runs: []run{
		{"auth", func(t *testing.T, dir string) suite.Results {
			// The test expects this user.
			for _, arguments := range []string{"user add root:rootpwd", "role add root", "user grant-role root root"} {
				command(t, dir, nil, programs(t).etcdctl, strings.Fields(arguments)...)
			}
			return cargo("", "test_auth", "--exact").do(t, dir)
		}},
		// Some tests are ignored because they need an etcd of version 3.7. Those that are skipped need a cluster, and an
		// etcd with other options.
		cargo("rest", "--include-ignored", "--skip", "test_auth", "--skip", "test_cluster",
			"--skip", "test_get_stream_chunked"),
	},
}

// prepareRust copies the crate that a package requires, and compiles its tests.
func prepareRust(t *testing.T, dir string) {
	manifest := "[package]\nname = \"tests\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[lib]\npath = \"none.rs\"\n" +
		"[dependencies]\n" + crate + " = \"=" + crateVersion + "\"\n"
	source := filepath.Join(dir, "source")
	prepared(t, dir, []string{manifest}, func() {
		for name, text := range map[string]string{"Cargo.toml": manifest, "none.rs": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		describe := exec.Command("cargo", "metadata", "--format-version", "1")
		describe.Dir = dir
		var found struct {
			Packages []struct {
				Name     string `json:"name"`
				Manifest string `json:"manifest_path"`
			} `json:"packages"`
		}
		if err := json.Unmarshal(suite.Output(t, describe), &found); err != nil {
			t.Fatal(err)
		}
		for _, p := range found.Packages {
			if p.Name == crate {
				suite.Copy(t, filepath.Dir(p.Manifest), source)
			}
		}
		compile := exec.Command("cargo", "test", "--locked", "--tests", "--no-run")
		compile.Dir, compile.Env = source, append(os.Environ(), debugless)
		suite.Output(t, compile)
	})
}

// debugless compiles without symbols for a debugger, which is faster.
const debugless = "CARGO_PROFILE_TEST_DEBUG=0"

func cargo(name string, filter ...string) run {
	return run{name, func(t *testing.T, dir string) suite.Results {
		arguments := append([]string{"test", "--locked", "--offline", "--tests", "--no-fail-fast", "--"}, filter...)
		return suite.Cargo(command(t, filepath.Join(dir, "source"), []string{debugless}, "cargo", arguments...))
	}}
}
