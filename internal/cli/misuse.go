package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// misusedFlag says what is wrong with a flag, and what would be right.
func misusedFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		err = unknownFlag(c, unknown)
	case errors.As(err, &invalid):
		err = invalidValue(invalid)
	}
	return UsageError(err)
}

func unknownFlag(c *cobra.Command, err *pflag.NotExistError) error {
	name, given := err.GetSpecifiedName(), "--"+err.GetSpecifiedName()
	if letters := err.GetSpecifiedShortnames(); letters != "" { // -controllers, or -x
		name, given = letters, "-"+letters
	}
	if meant := nearestFlag(c.Flags(), name); meant != "" {
		return fmt.Errorf("unknown flag: %s; did you mean --%s?", given, meant)
	}
	return fmt.Errorf("unknown flag: %s; `%s --help` lists the flags", given, c.CommandPath())
}

// invalidValue is the error of a value that a flag cannot have.
func invalidValue(err *pflag.InvalidValueError) error {
	return fmt.Errorf("--%s %q: %s", err.GetFlag().Name, err.GetValue(), wanted(err.GetFlag(), err.Unwrap()))
}

// wanted says which values a flag can have. Flags of the product's own types say it themselves, in their error.
func wanted(f *pflag.Flag, cause error) string {
	kind := f.Value.Type()
	switch {
	case errors.Is(cause, strconv.ErrRange):
		return "the number is too large"
	case kind == "duration":
		return "want a time with its unit, such as 5s or 300ms"
	case kind == "bool":
		return "want true or false"
	case strings.HasPrefix(kind, "float"):
		return "want a number, such as 0.5"
	case strings.HasPrefix(kind, "uint"):
		return "want a whole number of at least 0"
	case strings.HasPrefix(kind, "int"):
		return "want a whole number"
	case strings.HasPrefix(kind, "stringTo"):
		return "want pairs such as zone=a,rack=3"
	}
	return cause.Error()
}

// nearestFlag returns the flag that a user may have meant; empty: none is near.
func nearestFlag(f *pflag.FlagSet, given string) (meant string) {
	best := furthestTypo(given) + 1
	f.VisitAll(func(one *pflag.Flag) {
		if one.Hidden {
			return
		}
		if d := distance(given, one.Name); d < best {
			meant, best = one.Name, d
		}
	})
	if meant != "" || len(given) < shortestPart {
		return meant
	}
	f.VisitAll(func(one *pflag.Flag) { // --endpoints for --etcd-endpoints
		part := slices.Contains(strings.Split(one.Name, "-"), given)
		if meant == "" && !one.Hidden && (part || strings.HasPrefix(one.Name, given)) {
			meant = one.Name
		}
	})
	return meant
}

// shortestPart is the length from which a part of a name stands for the name.
const shortestPart = 3

// furthestTypo is the number of mistakes that leave a word recognizable.
func furthestTypo(word string) int {
	const letters = 4 // for each mistake
	return min(2, len(word)/letters)
}

// distance counts the letters to insert, delete or replace, and the neighbours to swap, that make one word another.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// explained replaces the errors of cobra's checks of arguments by ones that say what a command wants.
func explained(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		err := check(c, args)
		switch {
		case err == nil || errors.As(err, new(*StatusError)):
			return err
		case c.HasSubCommands() && len(args) > 0:
			return UsageError(unknownCommand(c, args[0]))
		}
		return wrongNumber(c, args)
	}
}

func unknownCommand(c *cobra.Command, given string) error {
	c.SuggestionsMinimumDistance = 2
	meant := c.SuggestionsFor(given)
	if len(meant) == 0 {
		return fmt.Errorf("unknown command %q for %q; `%s --help` lists its commands", given, c.CommandPath(), c.CommandPath())
	}
	return fmt.Errorf("unknown command %q for %q; did you mean %s?", given, c.CommandPath(), strings.Join(meant, " or "))
}

// wrongNumber says how many arguments were given, and what a command wants.
func wrongNumber(c *cobra.Command, args []string) error {
	return UsageError(fmt.Errorf("%s given: want %s; --help says more", Plural(len(args), "argument"), c.UseLine()))
}
