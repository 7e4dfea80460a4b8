package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/netcraq/netcraq/p4/spec"
)

// dataBits is the length of the arguments of the table's largest action.
func dataBits(p *spec.Program, t *spec.Table) int {
	most := 0
	for _, action := range t.Actions {
		most = max(most, spec.BitsOf(p.Parameters(action.Name)))
	}
	return most
}

// keyBits is the length of a table's key.
func keyBits(p *spec.Program, t *spec.Table) (sum int, err error) {
	all, err := p.KeyBits(t)
	for _, bits := range all {
		sum += bits
	}
	return sum, err
}

// counterBits is the width of a counter, see NQ_COUNTER in p4/target.p4.
const counterBits = 64

var declaration = regexp.MustCompile(`(?:Register<bit<(\d+)>[^(]*|NQ_COUNTER)\([^;]*\)\s*(\w+);`)

// declared is an array as a source declares it.
type declared struct {
	bits    int
	counter bool
}

// declarations returns each array that the sources declare, by its name there. p4c puts the names of controls in front
// of it.
func declarations(dir string) (map[string]declared, error) {
	files, err := sources(dir)
	if err != nil {
		return nil, err
	}
	all := make(map[string]declared)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.File))
		if err != nil {
			return nil, err
		}
		for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
			is := declared{counterBits, m[1] == ""}
			if !is.counter {
				if is.bits, err = strconv.Atoi(m[1]); err != nil {
					return nil, err
				}
			}
			if was, ok := all[m[2]]; ok && was != is {
				return nil, fmt.Errorf("%s: %s is %+v here, and %+v in another program", f.File, m[2], is, was)
			}
			all[m[2]] = is
		}
	}
	return all, nil
}

// declarationOf returns how an array of the .spec is declared.
func declarationOf(a spec.Array, all map[string]declared) (declared, error) {
	best := ""
	for name := range all {
		if (a.Name == name+"_0" || strings.HasSuffix(a.Name, "_"+name)) && len(name) > len(best) {
			best = name
		}
	}
	if best == "" {
		return declared{}, fmt.Errorf("no source declares the array %s", a.Name)
	}
	return all[best], nil
}
