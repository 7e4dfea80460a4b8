// Command wiregen writes everything that is derived from spec/wire.yaml: the Go constants and offsets, the C header
// of the BPF programs, the P4 headers, the constants of the Python and C clients, the dissector for Wireshark, and the
// reference page with its packet diagrams.
//
// It is run by `make generate` from the project's root; `-check` compares instead of writing and exits with 1 if
// a file is not current.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"
)

// output is one generated file and the function that renders it.
type output struct {
	path   string
	render func(*Spec) ([]byte, error)
}

var outputs = []output{
	{"wire/wire_gen.go", renderGo},
	{"bpf/include/wire.gen.h", renderC},
	{"p4/wire.p4", renderP4},
	{"internal/node/dataplane/p4/wire_gen.go", renderSteps},
	{"clients/python/src/netcraq/_wire.py", renderPython},
	{"clients/c/netcraq_wire.h", renderCClient},
	{"clients/wireshark/netcraq.lua", renderLua},
	{"spec/wire.md", renderMarkdown},
}

func main() {
	check := flag.Bool("check", false, "compare with the files on disk instead of writing them")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "wiregen:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	text, err := os.ReadFile("spec/wire.yaml")
	if err != nil {
		return err
	}
	spec := new(Spec)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(spec); err != nil {
		return fmt.Errorf("spec/wire.yaml: %w", err)
	}
	if err := spec.validate(); err != nil {
		return fmt.Errorf("spec/wire.yaml: %w", err)
	}
	for _, o := range outputs {
		want, err := o.render(spec)
		if err != nil {
			return fmt.Errorf("%s: %w", o.path, err)
		}
		if !check {
			if err := os.WriteFile(o.path, want, 0o644); err != nil {
				return err
			}
			continue
		}
		have, err := os.ReadFile(o.path)
		if err != nil {
			return err
		}
		if !bytes.Equal(have, want) {
			return fmt.Errorf("%s is not current: run `make generate` and commit the result", o.path)
		}
	}
	return nil
}
