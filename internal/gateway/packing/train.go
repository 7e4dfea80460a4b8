package packing

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

const (
	// MinSamples is how many values are needed to train a dictionary.
	MinSamples = 64
	// maxSamples bounds how many are kept.
	maxSamples = 512
	// longestSample bounds one.
	longestSample = 16 << 10
)

// Samples is a random choice of the values that were seen, all with the same probability.
type Samples struct {
	values [][]byte
	seen   int
}

// See takes a value.
func (s *Samples) See(value []byte) {
	if len(value) == 0 || len(value) > longestSample {
		return
	}
	s.seen++
	if len(s.values) < maxSamples {
		s.values = append(s.values, slices.Clone(value))
	} else if i := rand.IntN(s.seen); i < maxSamples {
		s.values[i] = slices.Clone(value)
	}
}

// Enough reports whether a dictionary can be trained.
func (s *Samples) Enough() bool { return len(s.values) >= MinSamples }

// Clone returns a copy, which can be trained while the original goes on.
func (s *Samples) Clone() *Samples { return &Samples{slices.Clone(s.values), s.seen} }

// Train makes a dictionary of the samples: pieces of as many of them as there is room for.
func (s *Samples) Train() ([]byte, error) {
	if !s.Enough() {
		return nil, fmt.Errorf("a dictionary needs %d values, and there are %d", MinSamples, len(s.values))
	}
	var text []byte
	for _, i := range rand.Perm(len(s.values)) {
		text = append(text, s.values[i][:min(len(s.values[i]), piece, MaxDictionaryBytes-len(text))]...)
	}
	return text, nil
}

// piece is how much of one value a dictionary has.
const piece = 1 << 10
