package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// words are the name=value pairs (or bare names, with an empty value) of one line, taken one by one.
type words struct {
	pairs []pair
	err   error
}

type pair struct{ name, value string }

// readWords cuts a line at spaces outside quotes.
func readWords(line string) (*words, error) {
	w := new(words)
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		end, quoted := 0, false
		for end < len(line) && (quoted || line[end] != ' ') {
			switch line[end] {
			case '"':
				quoted = !quoted
			case '\\':
				end++
			}
			end++
		}
		if quoted || end > len(line) {
			return nil, errors.New("a quote is not closed")
		}
		name, value, _ := strings.Cut(line[:end], "=")
		w.pairs = append(w.pairs, pair{name, value})
		line = line[end:]
	}
	return w, nil
}

// split takes the words behind the first mark, cut at every mark.
func (w *words) split(mark string) (parts []*words) {
	for i := len(w.pairs) - 1; i >= 0; i-- {
		if w.pairs[i] == (pair{name: mark}) {
			parts = append(parts, &words{pairs: w.pairs[i+1:]})
			w.pairs = w.pairs[:i:i]
		}
	}
	slices.Reverse(parts)
	return parts
}

// next takes the first word, which has to be a bare one.
func (w *words) next() string {
	if len(w.pairs) == 0 || w.pairs[0].value != "" {
		w.fail(errors.New("a word is missing"))
		return ""
	}
	name := w.pairs[0].name
	w.pairs = w.pairs[1:]
	return name
}

func (w *words) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// take removes a pair and returns its value.
func (w *words) take(name string) (string, bool) {
	for i, p := range w.pairs {
		if p.name == name {
			w.pairs = append(w.pairs[:i:i], w.pairs[i+1:]...)
			return p.value, true
		}
	}
	return "", false
}

// flag removes a bare name and reports whether it was there.
func (w *words) flag(name string) bool {
	_, ok := w.take(name)
	return ok
}

// number removes a pair whose value is an unsigned number of at most the given bits, or returns otherwise.
func (w *words) number(name string, bits int, otherwise uint64) uint64 {
	s, ok := w.take(name)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 0, bits)
	if err != nil {
		w.fail(fmt.Errorf("%s: %w", name, err))
	}
	return n
}

// change removes a pair whose value is a number with a sign.
func (w *words) change(name string) int {
	s, ok := w.take(name)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || (s[0] != '+' && s[0] != '-') {
		w.fail(fmt.Errorf("%s: want a change like +4 or -1, not %q", name, s))
	}
	return n
}

// done reports the first error, or a word that was not used.
func (w *words) done() error {
	if w.err == nil && len(w.pairs) > 0 {
		w.err = fmt.Errorf("nobody knows the word %q", w.pairs[0].name)
	}
	return w.err
}

// A value stands as "text", as #5 (a counter: 8 bytes) or as *1352 (so many bytes of a pattern).

func parseValue(s string) ([]byte, error) {
	switch {
	case strings.HasPrefix(s, "#"):
		n, err := strconv.ParseUint(s[1:], 0, 64)
		return binary.BigEndian.AppendUint64(nil, n), err
	case strings.HasPrefix(s, "*"):
		n, err := strconv.ParseUint(s[1:], 10, 16)
		return pattern(int(n)), err
	}
	text, err := strconv.Unquote(s)
	return []byte(text), err
}

// longText is the length from which a value is shown as a pattern, if it is one.
const longText = 64

func showValue(b []byte) string {
	switch {
	case len(b) == 8 && b[0] == 0:
		return "#" + strconv.FormatUint(binary.BigEndian.Uint64(b), 10)
	case len(b) >= longText && string(b) == string(pattern(len(b))):
		return "*" + strconv.Itoa(len(b))
	}
	return strconv.Quote(string(b))
}

// pattern is n bytes that repeat only after a prime number of them.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i%251) + 1
	}
	return b
}
