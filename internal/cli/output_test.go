package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/spf13/cobra"
)

// TestFailureAddsNoObject: with --json a command that fails prints its error as an object, unless it has printed its
// result, or says that the error is on the screen already.
func TestFailureAddsNoObject(t *testing.T) {
	t.Cleanup(func() { printed.Store(false) })
	for _, test := range []struct {
		json, result bool
		err          error
		want         int
	}{
		{true, false, errors.New("e"), 1},
		{true, true, errors.New("e"), 1},
		{true, false, ErrSaid, 0},
		{false, false, errors.New("e"), 0},
	} {
		printed.Store(false)
		var out bytes.Buffer
		c := new(cobra.Command)
		c.SetOut(&out)
		c.Flags().Bool("json", test.json, "")
		if test.result {
			if err := PrintJSON(&out, struct{}{}); err != nil {
				t.Fatal(err)
			}
		}
		printError(c, test.err, ExitError)
		objects := 0
		for decoder := json.NewDecoder(&out); decoder.More(); objects++ {
			var object map[string]any
			if err := decoder.Decode(&object); err != nil {
				t.Fatal(err)
			}
		}
		if objects != test.want {
			t.Errorf("%+v: %d objects", test, objects)
		}
	}
}
