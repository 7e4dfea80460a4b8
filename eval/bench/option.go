package bench

import "fmt"

// OptionError reports an option value that a benchmark does not support.
type OptionError struct{ text string }

func (e *OptionError) Error() string { return e.text }

func wrongOption(format string, args ...any) error {
	return &OptionError{fmt.Sprintf(format, args...)}
}
