package bench

import "fmt"

// OptionError is an option that nothing can be measured with.
type OptionError struct{ text string }

func (e *OptionError) Error() string { return e.text }

func wrongOption(format string, args ...any) error {
	return &OptionError{fmt.Sprintf(format, args...)}
}
