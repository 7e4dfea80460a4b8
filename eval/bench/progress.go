package bench

import "fmt"

// Progress receives progress messages of a benchmark; nil discards them.
type Progress func(text string)

func (p Progress) say(format string, args ...any) {
	if p != nil {
		p(fmt.Sprintf(format, args...))
	}
}
