package bench

import "fmt"

// Progress is told what a benchmark is doing; nil is told nothing.
type Progress func(text string)

func (p Progress) say(format string, args ...any) {
	if p != nil {
		p(fmt.Sprintf(format, args...))
	}
}
