// Command chart renders the Helm chart of deploy/chart with the values of deploy/manifests into plain manifests, with
// Helm's library. It checks them first: Helm's lint, and every object against the types of Kubernetes.
//
//	chart -root DIRECTORY [-check]
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	root := flag.String("root", ".", "the project's directory")
	check := flag.Bool("check", false, "write nothing, and fail if the manifests are not current")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// run renders the manifests, and writes or compares them.
func run(root string, check bool) error {
	chart, folder := filepath.Join(root, "deploy", "chart"), filepath.Join(root, "deploy", "manifests")
	return errors.Join(manifests(chart, folder, check), manifests(chart, filepath.Join(folder, "tags"), check))
}

// manifests makes those of a folder by the values there.
func manifests(chart, folder string, check bool) error {
	values, err := readValues(filepath.Join(folder, "values.yaml"))
	if err != nil {
		return err
	}
	if err := lintChart(chart, values); err != nil {
		return err
	}
	text, err := render(chart, values)
	if err != nil {
		return err
	}
	if err := put(folder, "netcraq.yaml", text, check); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(staticPods)) {
		pod, err := renderStaticPod(chart, values, name)
		if err != nil {
			return err
		}
		if err := put(folder, name, pod, check); err != nil {
			return err
		}
	}
	return nil
}

// put checks a manifest, and writes or compares it.
func put(folder, name string, text []byte, check bool) error {
	if err := checkObjects(text); err != nil {
		return err
	}
	path := filepath.Join(folder, name)
	if !check {
		return os.WriteFile(path, text, 0o644)
	}
	have, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, text) {
		return fmt.Errorf("%s is not current: run `make chart` and commit the result", path)
	}
	return nil
}
