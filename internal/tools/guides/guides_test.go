package guides

import (
	"os"
	"os/exec"
	"path/filepath"
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

// The commands of the documents print the output in the documents.
func TestDocuments(t *testing.T) {
	roottest.Need(t)
	bin := filepath.Join(build(t), "bin")
	for name, least := range documents {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(top, name))
			if err != nil {
				t.Fatal(err)
			}
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
			wrong, ran := Run(string(text), dir)
			for _, err := range wrong {
				t.Errorf("%s, %v", name, err)
			}
			if ran < least {
				t.Errorf("%s: only %d commands ran", name, ran)
			}
		})
	}
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
