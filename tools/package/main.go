// Command package packs the product into Debian packages: the programs of DIRECTORY/ARCHITECTURE, units, configuration
// files, man pages and completions, which are made from the commands' flags. Beside them it writes a bill of materials of
// each program (CycloneDX) and SHA256SUMS. Equal programs and arguments make equal bytes.
//
//	package -root ROOT -version VERSION -time SECONDS DIRECTORY ARCHITECTURE...
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// release is what is packed.
type release struct {
	root    string // of the sources
	version string
	time    time.Time // of all files
	dir     string
}

func main() {
	var r release
	flag.StringVar(&r.root, "root", ".", "the product's sources")
	flag.StringVar(&r.version, "version", "", "version, such as 0.1.0")
	seconds := flag.Int64("time", 0, "time of all files, in seconds since 1970: that of the commit")
	flag.Parse()
	if flag.NArg() < 2 || r.version == "" {
		fmt.Fprintln(os.Stderr, "usage: package -root ROOT -version VERSION -time SECONDS DIRECTORY ARCHITECTURE...")
		os.Exit(2)
	}
	r.dir, r.time = flag.Arg(0), time.Unix(*seconds, 0).UTC()
	if err := r.pack(flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
}

// pack writes the packages, the bills of materials and the checksums.
func (r *release) pack(archs []string) error {
	generated, err := os.MkdirTemp("", "netcraq-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(generated)
	if err := r.generate(generated); err != nil {
		return err
	}
	var names []string
	for _, arch := range archs {
		name, err := r.debian(generated, arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		names = append(names, name)
		for _, program := range programs {
			bill, err := r.bill(program, arch)
			if err != nil {
				return fmt.Errorf("%s for %s: %w", program, arch, err)
			}
			names = append(names, bill)
		}
	}
	sums := new(strings.Builder)
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(sums, "%x  %s\n", sha256.Sum256(text), name)
		fmt.Println(filepath.Join(r.dir, name))
	}
	return os.WriteFile(filepath.Join(r.dir, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
