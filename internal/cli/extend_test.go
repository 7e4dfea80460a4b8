package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// asProduct makes this test's binary the product's program.
const asProduct = "NETCRAQ_TEST_AS_PRODUCT"

func TestMain(m *testing.M) {
	if os.Getenv(asProduct) != "" {
		ProductMain(Extensions())
		return
	}
	os.Exit(m.Run())
}

// run runs the product's program with another directory on PATH.
func run(t *testing.T, dir, stdin string, args ...string) (out, complained string, status int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProduct+"=1", "PATH="+dir+":/usr/bin:/bin")
	cmd.Stdin = strings.NewReader(stdin)
	var said, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &log
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return said.String(), log.String(), cmd.ProcessState.ExitCode()
}

// other is a program that says how it was called, passes its input on, and ends with status 7.
const other = `#!/bin/sh
case $1 in
__complete) printf 'one\tthe first\ntwo\n:4\n'; exit 0 ;;
esac
echo "called $(basename "$0")"
for word; do echo "<$word>"; done
cat
exit 7
`

func TestExtensionsTakeOver(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"netcraq-lab", "netcraq-bench"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(other), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"lab", "exec", "c1", "--", "netcraq", "get", "a b"},
			"called netcraq-lab\n<lab>\n<exec>\n<c1>\n<-->\n<netcraq>\n<get>\n<a b>\ninput\n"},
		{[]string{"bench", "read", "--json"}, "called netcraq-bench\n<bench>\n<read>\n<--json>\ninput\n"},
		{[]string{"sim", "--help"}, "called netcraq-lab\n<sim>\n<--help>\ninput\n"},
		{[]string{"help", "lab", "up"}, "called netcraq-lab\n<lab>\n<up>\n<--help>\ninput\n"},
	} {
		out, complained, status := run(t, dir, "input\n", c.args...)
		if out != c.want || status != 7 || complained != "" {
			t.Errorf("netcraq %q: status %d: %q, %q", c.args, status, out, complained)
		}
	}
	if out, _, _ := run(t, dir, "", "__complete", "lab", ""); out != "one\tthe first\ntwo\n:4\n" {
		t.Errorf("completions of lab are %q", out)
	}
}

func TestMissingExtensionsAreNamed(t *testing.T) {
	for _, args := range [][]string{{"lab", "status"}, {"bench", "--help"}, {"help", "sim"}} {
		out, complained, status := run(t, t.TempDir(), "", args...)
		if out != "" || status != ExitError || !strings.Contains(complained, "nor on PATH") {
			t.Errorf("netcraq %q: status %d: %q, %q", args, status, out, complained)
		}
	}
	out, _, status := run(t, t.TempDir(), "", "--help")
	if status != 0 || slices.ContainsFunc(extensions, func(e extension) bool {
		return !strings.Contains(out, e.name+" ")
	}) {
		t.Errorf("help, with status %d, lists not all: %s", status, out)
	}
}
