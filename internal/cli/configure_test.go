package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// configured is a command with flags of all kinds.
type configured struct {
	name, listen string
	peers        []string
	ports        []string
	wait         time.Duration
	fast         bool
	networks     []string
}

func (o *configured) command() *cobra.Command {
	c := &cobra.Command{Use: "node", RunE: func(*cobra.Command, []string) error { return nil }, SilenceErrors: true, SilenceUsage: true}
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "")
	f.StringVar(&o.listen, "listen", "default", "address")
	f.StringVar(&o.listen, "listen-addr", "default", "same as --listen")
	f.StringSliceVar(&o.peers, "peers", []string{"none"}, "")
	f.StringArrayVar(&o.ports, "port-if", nil, "")
	f.DurationVar(&o.wait, "wait", time.Second, "")
	f.BoolVar(&o.fast, "fast", false, "")
	f.Func("transit", "", func(s string) error { o.networks = append(o.networks, s); return nil })
	return Configurable(c)
}

// run executes the command with a file and arguments.
func (o *configured) run(t *testing.T, file string, args ...string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	c := o.command()
	c.SetArgs(append([]string{"--config", path}, args...))
	return c.Execute()
}

func TestConfigurationFile(t *testing.T) {
	var o configured
	err := o.run(t, "# all kinds\nname: 0017\npeers: [a, b]\nport-if: [eth0]\nwait: 5s\nfast: true\ntransit: [x, y]\nlisten: here\n")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{o.name, strings.Join(o.peers, " "), strings.Join(o.ports, " "), o.wait.String(), strings.Join(o.networks, " "), o.listen}
	if want := "0017|a b|eth0|5s|x y|here"; strings.Join(got, "|") != want || !o.fast {
		t.Errorf("%q, %v, want %q", got, o.fast, want)
	}
	if err := new(configured).run(t, "# nothing is set\n"); err != nil {
		t.Errorf("a file of comments: %v", err)
	}
}

// TestConfigurationPrecedence: the command line, then the environment, then the file, also under a flag's other name.
func TestConfigurationPrecedence(t *testing.T) {
	t.Setenv("NETCRAQ_NODE_PORT_IF", "eth1,eth2")
	t.Setenv("NETCRAQ_NODE_NAME", "environment")
	var o configured
	if err := o.run(t, "name: file\npeers: file\nport-if: file\nlisten: file\n", "--name", "line", "--listen-addr", "line"); err != nil {
		t.Fatal(err)
	}
	got := []string{o.name, strings.Join(o.ports, " "), strings.Join(o.peers, " "), o.listen}
	if want := "line|eth1 eth2|file|line"; strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestConfiguredFlagsAreGiven: checks of flags that may not be given together see those of a file too.
func TestConfiguredFlagsAreGiven(t *testing.T) {
	c := new(configured).command()
	path := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(path, []byte("peers: [a]\nname: b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.SetArgs([]string{"--config", path})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	var given []string
	c.Flags().Visit(func(f *pflag.Flag) { given = append(given, f.Name) })
	if strings.Join(given, " ") != "config name peers" {
		t.Errorf("the given flags are %q", given)
	}
}

func TestWrongConfigurations(t *testing.T) {
	for file, want := range map[string]string{
		"klingon: x\n":                "node.yaml:1: klingon: there is no such flag",
		"name: x\n\nname: y\n":        "node.yaml:3: name is there twice",
		"name:\n":                     "want a value",
		"name: [a, b]\n":              "want one value, not a list",
		"name: {a: b}\n":              "want a value, or a list",
		"wait: soon\n":                "node.yaml:1: wait: \"soon\": want a time with its unit",
		"- name\n":                    "with the names of flags",
		"config: other\n":             "there is no such flag",
		"help: true\n":                "there is no such flag",
		"listen: a\nlisten-addr: b\n": "--listen is there under another name too",
		"name: x\n---\nname: y\n":     "more than one document",
		"name: \"x\n":                 "node.yaml: yaml:",
		"peers: [a, [b]]\n":           "want a list of values",
		"fast: perhaps\n":             "node.yaml:1: fast: \"perhaps\": want true or false",
		"nam: x\n":                    "node.yaml:1: nam: there is no such flag; did you mean name?",
	} {
		err := new(configured).run(t, file)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", file, err, want)
		} else if ExitStatus(err, true) != ExitUsage {
			t.Errorf("%q: exit status %d, want that of a wrong command line", file, ExitStatus(err, true))
		}
	}
	c := new(configured).command()
	c.SetArgs([]string{"--config", "/nowhere/node.yaml"})
	if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("a file that is not there: %v", err)
	}
	t.Setenv("NETCRAQ_NODE_KLINGON", "x")
	if err := new(configured).run(t, ""); err == nil || !strings.Contains(err.Error(), "NETCRAQ_NODE_KLINGON") {
		t.Errorf("an unknown variable: %v", err)
	}
}
