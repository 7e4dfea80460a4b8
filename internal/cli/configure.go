package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// configFlag names the configuration file.
const configFlag = "config"

// Configurable lets a command take its flags from a configuration file and from the environment too. The file is a YAML
// mapping of the flags' names. A flag of the command line overrides the environment, and the environment the file.
func Configurable(c *cobra.Command) *cobra.Command {
	var path string
	prefix := environmentPrefix(c)
	c.Flags().StringVar(&path, configFlag, "", "YAML `file` with flags by name; "+prefix+"FLAG in the environment and the "+
		"command line override it (default: none)")
	if err := c.MarkFlagFilename(configFlag, "yaml", "yml"); err != nil {
		panic(err) // the flag was defined just above
	}
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if err := configure(c.Flags(), path, prefix, os.Environ()); err != nil {
			return UsageError(err)
		}
		return nil
	}
	return c
}

// environmentPrefix begins the variables of a command's flags.
func environmentPrefix(c *cobra.Command) string {
	return strings.ToUpper(ProductName + "_" + strings.ReplaceAll(c.Name(), "-", "_") + "_")
}

// configure sets the flags that the command line has not.
func configure(f *pflag.FlagSet, path, prefix string, environment []string) error {
	given := make(map[string]bool)
	f.Visit(func(one *pflag.Flag) { given[canonical(one)] = true })
	fromEnvironment, err := environmentValues(f, prefix, environment)
	if err == nil {
		err = set(f, fromEnvironment, given)
	}
	if err != nil || path == "" {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	fromFile, err := fileValues(f, path, text)
	if err != nil {
		return err
	}
	return set(f, fromFile, given)
}

// canonical is the name of the flag that a flag is another name for, or its own.
func canonical(f *pflag.Flag) string {
	if name, same := strings.CutPrefix(f.Usage, "same as --"); same {
		return name
	}
	return f.Name
}

// configurable returns the flag that a name of a source stands for.
func configurable(f *pflag.FlagSet, name string) (*pflag.Flag, error) {
	one := f.Lookup(name)
	if one == nil || name == configFlag || name == "help" {
		if meant := nearestFlag(f, name); one == nil && meant != "" && meant != configFlag && meant != "help" {
			return nil, fmt.Errorf("there is no such flag; did you mean %s?", meant)
		}
		return nil, errors.New("there is no such flag")
	}
	return one, nil
}

// value is the value of a flag in a source.
type value struct {
	where string // for errors
	name  string
	parts []string // of a list; one for another flag
}

// environmentValues reads the variables with a prefix.
func environmentValues(f *pflag.FlagSet, prefix string, environment []string) (values []value, err error) {
	slices.Sort(environment)
	for _, variable := range environment {
		name, text, _ := strings.Cut(variable, "=")
		short, ours := strings.CutPrefix(name, prefix)
		if !ours {
			continue
		}
		flag := strings.ToLower(strings.ReplaceAll(short, "_", "-"))
		one, err := configurable(f, flag)
		if err != nil {
			return nil, fmt.Errorf("environment variable %s, for --%s: %w", name, flag, err)
		}
		parts := []string{text}
		if _, list := one.Value.(pflag.SliceValue); list {
			parts = strings.Split(text, ",")
		}
		values = append(values, value{name, flag, parts})
	}
	return values, nil
}

// fileValues reads a configuration file.
func fileValues(f *pflag.FlagSet, path string, text []byte) (values []value, err error) {
	var document yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) { // nothing but comments
			return nil, nil
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more than one document", path)
	}
	mapping := document.Content[0]
	if mapping.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: want lines such as `name: value`, with the names of flags", path)
	}
	seen := make(map[string]bool)
	for i := 0; i < len(mapping.Content); i += 2 {
		key, node := mapping.Content[i], mapping.Content[i+1]
		where := fmt.Sprintf("%s:%d: %s", path, key.Line, key.Value)
		if _, err := configurable(f, key.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		if seen[key.Value] {
			return nil, fmt.Errorf("%s is there twice", where)
		}
		seen[key.Value] = true
		parts, err := partsOf(node)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		values = append(values, value{where, key.Value, parts})
	}
	return values, nil
}

// partsOf returns the text of a value, or of the elements of a list.
func partsOf(n *yaml.Node) ([]string, error) {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		return []string{n.Value}, nil
	}
	if n.Kind != yaml.SequenceNode {
		return nil, errors.New("want a value, or a list of values")
	}
	parts := make([]string, 0, len(n.Content))
	for _, one := range n.Content {
		if one.Kind != yaml.ScalarNode || one.Tag == "!!null" {
			return nil, errors.New("want a list of values")
		}
		parts = append(parts, one.Value)
	}
	return parts, nil
}

// set sets flags that no earlier source has given, and notes them as given.
func set(f *pflag.FlagSet, values []value, given map[string]bool) error {
	now := make(map[string]bool)
	for _, v := range values {
		one := f.Lookup(v.name)
		name := canonical(one)
		if now[name] {
			return fmt.Errorf("%s: --%s is there under another name too", v.where, name)
		}
		if now[name] = true; given[name] {
			continue
		}
		err := setFlag(f, one, v.parts)
		if invalid := new(pflag.InvalidValueError); errors.As(err, &invalid) {
			err = fmt.Errorf("%q: %s", invalid.GetValue(), wanted(one, invalid.Unwrap()))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", v.where, err)
		}
	}
	for name := range now {
		given[name] = true
	}
	return nil
}

// setFlag sets a flag as the command line would.
func setFlag(f *pflag.FlagSet, one *pflag.Flag, parts []string) error {
	list, isList := one.Value.(pflag.SliceValue)
	switch {
	case isList:
		first := ""
		if len(parts) > 0 {
			first = parts[0]
		}
		if err := f.Set(one.Name, first); err != nil { // notes it as given
			return err
		}
		return list.Replace(parts)
	case len(parts) != 1 && one.Value.Type() == "func" || len(parts) == 1:
		for _, part := range parts {
			if err := f.Set(one.Name, part); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("want one value, not a list")
}
