package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/product"
)

// settings are flags that the configuration files set; all others are there as comments.
var settings = map[string]map[string]string{
	"controller": {"data-dir": "/var/lib/netcraq/controller"},
	"gateway":    {"data-dir": "/var/lib/netcraq/gateway"},
	"keyspace":   {"data-dir": "/var/lib/netcraq/keyspace"},
	"node":       {},
}

// generate writes man pages to DIR/man, completions to DIR/completions, and configuration files to DIR/config.
func (r *release) generate(dir string) error {
	root := cli.ProductRoot(product.Commands()...)
	for _, part := range []string{"man", "completions", "config"} {
		if err := os.MkdirAll(filepath.Join(dir, part), 0o755); err != nil {
			return err
		}
	}
	header := &doc.GenManHeader{Section: "1", Date: &r.time, Source: "NetCRAQ " + r.version, Manual: "NetCRAQ"}
	root.DisableAutoGenTag = true
	return errors.Join(
		doc.GenManTree(root, header, filepath.Join(dir, "man")),
		compress(filepath.Join(dir, "man")),
		root.GenBashCompletionFileV2(filepath.Join(dir, "completions", "bash"), true),
		root.GenZshCompletionFile(filepath.Join(dir, "completions", "zsh")),
		root.GenFishCompletionFile(filepath.Join(dir, "completions", "fish"), true),
		configurations(root, filepath.Join(dir, "config")),
	)
}

// compress replaces all files of a directory by compressed ones.
func compress(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		out := new(bytes.Buffer)
		w, _ := gzip.NewWriterLevel(out, gzip.BestCompression) // the level is valid
		if _, err := w.Write(text); err != nil {
			return err
		}
		if err := errors.Join(w.Close(), os.WriteFile(file+".gz", out.Bytes(), 0o644), os.Remove(file)); err != nil {
			return err
		}
	}
	return nil
}

// configurations writes a configuration file for each program that has one.
func configurations(root *cobra.Command, dir string) error {
	for name, set := range settings {
		c, _, err := root.Find([]string{name})
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(configuration(c, set)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// once are flags that are for a single run.
var once = map[string]bool{
	"config": true, "help": true, "remove": true, "replacement": true, "accept-data-loss": true, "clean": true,
}

// configuration is a file with all flags of a command: those that are not set are comments with their defaults.
func configuration(c *cobra.Command, set map[string]string) string {
	out := new(strings.Builder)
	fmt.Fprintf(out, "# Flags of `netcraq %s`, with their defaults. Variables NETCRAQ_%s_FLAG and the command line override them.\n",
		c.Name(), strings.ToUpper(c.Name()))
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || once[f.Name] || strings.HasPrefix(f.Usage, "same as --") {
			return
		}
		_, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(out, "\n# %s\n", strings.ReplaceAll(usage, "\n", "\n# "))
		if value, is := set[f.Name]; is {
			fmt.Fprintf(out, "%s: %s\n", f.Name, value)
			return
		}
		fmt.Fprintf(out, "#%s: %s\n", f.Name, defaultOf(f))
	})
	return out.String()
}

// defaultOf is a flag's default as YAML.
func defaultOf(f *pflag.Flag) string {
	if list, is := f.Value.(pflag.SliceValue); is {
		return "[" + strings.Join(list.GetSlice(), ", ") + "]"
	}
	if f.DefValue == "" || f.DefValue == "[]" { // a map of labels has the latter
		return `""`
	}
	return f.DefValue
}
