package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ProductName is the name of the program for production. It finds the programs that extend it by their names.
const ProductName = "netcraq"

// Programs that extend it.
const (
	LabName   = "netcraq-lab"
	BenchName = "netcraq-bench"
)

// Titles of their commands in the product's help.
var titles = map[string]string{
	LabName:   "A laboratory on this machine",
	BenchName: "Measurements, and tools of developers",
}

// isProduct reports whether this process is the product's program.
var isProduct bool

// ProductPath returns the path of the product's program. Labs and benchmarks start nodes and controllers from it.
func ProductPath() (string, error) {
	if isProduct {
		return os.Executable()
	}
	return FindProgram(ProductName)
}

// FindProgram looks for a program beside this one, then on PATH.
func FindProgram(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), name)
	if path, err := exec.LookPath(beside); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "",
			fmt.Errorf("the program %s is neither beside %s nor on PATH: build it with `make build` and install it beside netcraq",
				name, self)
	}
	return filepath.Abs(path)
}

// CalledAs returns the command that calls the product's program from the shell that called this one.
func CalledAs() string {
	dir, _ := filepath.Split(os.Args[0])
	switch {
	case isProduct:
		return os.Args[0]
	case dir != "":
		return dir + ProductName
	}
	return ProductName
}

// extension is a command of another program.
type extension struct{ name, program, short string }

var extensions = []extension{
	{"up", LabName, "Start a chain on this machine and keep it until Ctrl-C"},
	{"lab", LabName, "Run a test network of hosts and nodes on this machine (root)"},
	{"sim", LabName, "Simulate clusters with faults, deterministically from seeds"},
	{"conformance", LabName, "Check a data plane against the specification: all vectors, then random packets"},
	{"bench", BenchName, "Measure nodes with load generated in the kernel (root)"},
	{"history", BenchName, "Keep figures of commits, and find the steps in them"},
	{"mutate", BenchName, "Measure whether the tests notice a wrong decision"},
}

// ShortOf returns the one-line description of an extension's command.
func ShortOf(name string) string {
	i := slices.IndexFunc(extensions, func(e extension) bool { return e.name == name })
	return extensions[i].short
}

// Extensions returns the commands that other programs implement. The other program replaces this process, as with git:
// it gets the arguments, input, output and signals, and its exit status is the command's.
func Extensions() []*cobra.Command {
	var all []*cobra.Command
	for _, e := range extensions {
		all = append(all, e.command())
	}
	return all
}

func (e *extension) command() *cobra.Command {
	c := &cobra.Command{
		Use:                e.name,
		Short:              e.short,
		GroupID:            titles[e.program],
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return become(e.program, append([]string{e.name}, args...))
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return completions(e.program, slices.Concat([]string{cobra.ShellCompRequestCmd, e.name}, args, []string{toComplete}))
		},
	}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		words := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(word string) bool {
			return word == "help" || word == "--help" || word == "-h"
		})
		if err := become(e.program, append(words, "--help")); err != nil {
			fmt.Fprintln(c.ErrOrStderr(), "netcraq:", err)
			os.Exit(ExitError)
		}
	})
	return c
}

// Pass replaces this process by another program, which has a command of the same name. It passes on the flags that were
// given.
func Pass(c *cobra.Command, program string) error {
	args := []string{c.Name()}
	c.Flags().Visit(func(f *pflag.Flag) { args = append(args, "--"+f.Name+"="+f.Value.String()) })
	return become(program, args)
}

// become replaces this process by another program. It returns only if that fails.
func become(program string, args []string) error {
	path, err := FindProgram(program)
	if err != nil {
		return fmt.Errorf("`netcraq %s` needs another program: %w", args[0], err)
	}
	called := program
	if dir, _ := filepath.Split(os.Args[0]); dir != "" {
		called = dir + program
	}
	if err := syscall.Exec(path, append([]string{called}, args...), os.Environ()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// completions asks another program for completions, in the format of cobra's hidden command.
func completions(program string, args []string) ([]string, cobra.ShellCompDirective) {
	path, err := FindProgram(program)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	out, err := exec.Command(path, args...).Output()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var found []string
	directive := cobra.ShellCompDirectiveDefault
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if code, ok := strings.CutPrefix(lines.Text(), ":"); ok {
			if n, err := strconv.Atoi(code); err == nil {
				directive = cobra.ShellCompDirective(n)
			}
			continue
		}
		found = append(found, lines.Text())
	}
	return found, directive
}
