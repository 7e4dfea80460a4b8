package xdp

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/cilium/ebpf"
)

// parts are the names that this package uses of netcraq.o.
type parts struct{ maps, programs, variables []string }

// partsOfNode are those names, with these constants.
func partsOfNode(c constants) parts {
	return parts{
		maps:      slices.Concat(tagged[ebpf.Map](), pinned),
		programs:  tagged[ebpf.Program](),
		variables: append(slices.Sorted(maps.Keys(c)), tagged[ebpf.Variable]()...),
	}
}

// tagged lists the names of the fields of objects of type *T.
func tagged[T any]() (names []string) {
	fields := reflect.TypeFor[objects]()
	for i := range fields.NumField() {
		if f := fields.Field(i); f.Type == reflect.TypeFor[*T]() {
			names = append(names, f.Tag.Get("ebpf"))
		}
	}
	return names
}

// isCurrent returns an error if the compiled object lacks a part: it was compiled from older sources than this package.
func isCurrent(spec *ebpf.CollectionSpec, p parts) error {
	for _, kind := range []struct {
		name  string
		names []string
		has   func(string) bool
	}{
		{"map", p.maps, func(name string) bool { return spec.Maps[name] != nil }},
		{"program", p.programs, func(name string) bool { return spec.Programs[name] != nil }},
		{"variable", p.variables, func(name string) bool { return spec.Variables[name] != nil }},
	} {
		for _, name := range kind.names {
			if !kind.has(name) {
				return fmt.Errorf("netcraq.o in this binary has no %s %s: it was compiled from other sources than the rest; "+
					"run `make bpf` and build the binary again", kind.name, name)
			}
		}
	}
	return nil
}
