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
	"os"
	"path/filepath"
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
	if err := checkObjects(text); err != nil {
		return err
	}
	path := filepath.Join(folder, "netcraq.yaml")
	if !check {
		return os.WriteFile(path, text, 0o644)
	}
	have, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, text) {
		return errors.New("deploy/manifests/netcraq.yaml is not current: run `make chart` and commit the result")
	}
	return nil
}
