package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// compiled returns the programs that p4c compiled for SWX, by their sources' names.
func compiled(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, f := range folders {
		for _, source := range f.programs {
			text, err := os.ReadFile(filepath.Join(root, f.path, strings.TrimSuffix(source, ".p4")+".spec"))
			if err != nil {
				t.Fatal(err)
			}
			all[source] = string(text)
		}
	}
	return all
}

// instructions are the lines of a program's apply block, without labels.
func instructions(t *testing.T, program string) [][]string {
	t.Helper()
	_, body, ok := strings.Cut(program, "\napply {\n")
	if !ok {
		t.Fatal("the program has no apply block")
	}
	var all [][]string
	for line := range strings.Lines(body) {
		words := strings.Fields(line)
		if len(words) > 2 && words[1] == ":" {
			words = words[2:]
		}
		if len(words) > 0 {
			all = append(all, words)
		}
	}
	return all
}

// stateful are the beginnings of the names of arrays with objects and sessions; the others have counts.
var stateful = []string{"state_", "cells_", "objects_"}

// TestRegistersStandTogether: SWX may change to another frame at a table, so none may stand between the first access to what
// is kept of objects and sessions and the last one.
func TestRegistersStandTogether(t *testing.T) {
	for name, program := range compiled(t) {
		first, last, tables := -1, -1, []int(nil)
		for i, words := range instructions(t, program) {
			switch words[0] {
			case "regrd", "regwr", "regadd":
				if !slices.ContainsFunc(words, func(word string) bool {
					return slices.ContainsFunc(stateful, func(prefix string) bool { return strings.HasPrefix(word, prefix) })
				}) {
					continue
				}
				if first < 0 {
					first = i
				}
				last = i
			case "table":
				tables = append(tables, i)
			}
		}
		if name != "swap.p4" && (first < 0 || len(tables) == 0) {
			t.Fatalf("%s: %d tables, first register at %d", name, len(tables), first)
		}
		for _, at := range tables {
			if at > first && at < last {
				t.Errorf("%s: a table stands at instruction %d, between registers at %d and %d", name, at, first, last)
			}
		}
	}
}

// TestDropsByPort: the instruction drop would give frames to a port of DPDK's that takes them for its own buffers. It stands
// in each program once, behind a condition that never holds.
func TestDropsByPort(t *testing.T) {
	for name, program := range compiled(t) {
		drops := 0
		for _, words := range instructions(t, program) {
			if words[0] == "drop" {
				drops++
			}
			if words[0] == "mov" && words[1] == "m.psa_ingress_output_metadata_drop" && words[2] != "0" && words[2] != "0x1" {
				t.Errorf("%s: %v: drops are sent to a port", name, words)
			}
		}
		if drops != 1 {
			t.Errorf("%s: %d instructions drop, want the one that p4c puts at the end", name, drops)
		}
	}
}
