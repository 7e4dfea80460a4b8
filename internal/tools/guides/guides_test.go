package guides

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

const top = "../../.."

// documents are run, and how many commands of each there are at least.
var documents = map[string]int{"README.md": 7, "docs/tutorial.md": 22, "docs/hosts.md": 3,
	"docs/cluster.md": 17, "docs/lab.md": 5}

// build makes the programs, in the bin of a new directory that every user may enter.
func build(t *testing.T) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "netcraq-guide")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "run"), 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "bin")+"/", "./cmd/...")
	cmd.Dir, cmd.Env = top, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// check runs a document's commands in a directory of its own, with programs, and expects a number of commands.
func check(t *testing.T, bin, text string, least int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "netcraq-guide")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, each := range []error{
		os.Chmod(dir, 0o777), os.Symlink(bin, filepath.Join(dir, "bin")), os.Mkdir(filepath.Join(dir, "run"), 0o777),
		os.Chmod(filepath.Join(dir, "run"), 0o777),
	} {
		if each != nil {
			t.Fatal(each)
		}
	}
	wrong, ran := Run(text, dir)
	for _, err := range wrong {
		t.Error(err)
	}
	if ran < least {
		t.Errorf("only %d commands ran", ran)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The commands of the documents print the output in the documents.
func TestDocuments(t *testing.T) {
	roottest.Need(t)
	bin := filepath.Join(build(t), "bin")
	for name, least := range documents {
		t.Run(filepath.Base(name), func(t *testing.T) { check(t, bin, read(t, name), least) })
	}
	t.Run("existing etcd", func(t *testing.T) { check(t, bin, onExistingEtcd(t), 4) })
}

// onExistingEtcd is a session with the first commands of docs/cluster.md, in which an existing etcd replaces the
// directory as the page says: three controllers form one cluster.
func onExistingEtcd(t *testing.T) string {
	t.Helper()
	text := read(t, "docs/cluster.md")
	steps, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	first := slices.IndexFunc(steps, func(s Step) bool { return s.Name == "" })
	flags := regexp.MustCompile("existing etcd\\*\\* replaces `--data-dir`: `([^`]+)`").FindStringSubmatch(text)
	if first < 0 || len(flags) == 0 {
		t.Fatal("the page says nothing of an existing etcd")
	}
	commands := regexp.MustCompile(`--data-dir \S+`).ReplaceAllString(strings.Join(steps[first].Text, "\n"), flags[1])
	host := regexp.MustCompile(`--etcd-endpoints (\S+):`).FindStringSubmatch(commands)
	if len(host) == 0 {
		t.Fatalf("no etcd is named:\n%s", commands)
	}
	const etcd = "<!-- guide: do ip address add %[1]s/32 dev lo; netcraq controller --data-dir etcd --listen %[1]s " +
		"--etcd-client %[1]s:2379 >/dev/null 2>&1 & -->\n"
	const formed = "<!-- guide: do until netcraq controllers --controllers 127.88.0.1 >/dev/null 2>&1; do sleep 0.2; done -->\n" +
		"```\n$ netcraq controllers --controllers 127.88.0.1\nNAME ADDRESS STATE\n" +
		"c1 127.88.0.1:4413 member\nc2 127.88.0.2:4413 member\nc3 127.88.0.3:4413 member\n```\n"
	return fmt.Sprintf(etcd, host[1]) + "<!-- guide: background -->\n```\n" + commands + "\n```\n" + formed
}

func TestComparison(t *testing.T) {
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"a\nb", "a\n\nb\n", true}, {"a\nb", "a", false}, {"a", "a\nb", false},
		{"a\n...\nd", "a\nb\nc\nd", true}, {"...", "", true},
		{"a\n...\nd", "a\nb\nc", false}, {"4 hops, 215 µs", "4 hops,   3.1 ms", true},
		{"5 hops, 215 µs", "4 hops, 3.1 ms", false},
		{"error: ...", "error: of some kind", true}, {"a   b", "a b", true}, {"· step\na", "a", true},
		{"version 1", "version 2", false},
	} {
		want, got := Clean(strings.Split(c.want, "\n"), nil), Clean(strings.Split(c.got, "\n"), nil)
		if Matches(want, got) != c.same {
			t.Errorf("%q and %q: want %v", c.want, c.got, c.same)
		}
	}
}

func TestDocumentsAreRead(t *testing.T) {
	text := "x\n<!-- guide: vary n[12] -->\n```\n$ echo n1\nn2\n# false\n```\n```\nno prompt\n```\n" +
		"<!-- guide: skip because -->\n```\nskipped\n```\n" +
		"<!-- guide: run -->\n```\ntrue\n\necho a # b\n```\n<!-- guide: file f -->\n```yaml\nin: f\n```\n" +
		"```\n$ cat f ; echo $?\nin: f\n0\n$ echo c\nd\n```\n"
	wrong, ran := Run(text, t.TempDir())
	var said []string
	for _, err := range wrong {
		line, _, _ := strings.Cut(err.Error(), ":")
		said = append(said, line)
	}
	if want := []string{"line 6", "line 8", "line 29"}; !slices.Equal(said, want) || ran != 6 {
		t.Errorf("%d commands; %v", ran, wrong)
	}
}
