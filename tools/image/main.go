// Command image packs programs into container images, without a container engine. Below DIRECTORY, each architecture
// has a folder with its programs; its image becomes DIRECTORY/PROGRAM-linux-ARCHITECTURE.tar, by the name of the first
// program. Equal programs and arguments make equal bytes.
//
//	image [-programs NAME,...] [-name NAME:TAG] [-version VERSION] [-revision COMMIT] DIRECTORY ARCHITECTURE...
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	var about labels
	ref := flag.String("name", "netcraq:latest", "the image's name, as the chart's image.repository:image.tag")
	programs := flag.String("programs", strings.Join(product, ","),
		"comma-separated programs of the image; the first is its entry point")
	flag.StringVar(&about.version, "version", "", "the product's version")
	flag.StringVar(&about.revision, "revision", "", "the commit that the programs were built from; empty if not known")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: image [flags] DIRECTORY ARCHITECTURE...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	for _, arch := range flag.Args()[1:] {
		path, err := pack(flag.Arg(0), arch, *ref, strings.Split(*programs, ","), about)
		if err != nil {
			fmt.Fprintln(os.Stderr, "image:", err)
			os.Exit(1)
		}
		fmt.Println(path)
	}
}

// pack writes the image of one architecture, and returns the path of the archive.
func pack(dir, arch, ref string, programs []string, about labels) (path string, err error) {
	img, err := build(filepath.Join(dir, arch), arch, programs, about)
	if err != nil {
		return "", err
	}
	var archive bytes.Buffer
	if err := writeArchive(&archive, img, ref); err != nil {
		return "", err
	}
	path = filepath.Join(dir, programs[0]+"-linux-"+arch+".tar")
	return path, os.WriteFile(path, archive.Bytes(), 0o644)
}
