package memory

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// FuzzItems: a message of another gateway is a list of items, or ends with an error. Items have the encoding that they are
// decoded from, as far as lengths have their shortest form.
func FuzzItems(f *testing.F) {
	first := item{1 << 40, itemPut, []byte("body")}
	second := item{2, itemAnswer, nil}
	f.Add(second.append(first.append(nil)))
	f.Fuzz(func(t *testing.T, message []byte) {
		var all []item
		receive := func(m any) error { m.(*wrapperspb.BytesValue).Value = message; return nil }
		if each(receive, func(i item) error { all = append(all, i); return nil }) != nil {
			return
		}
		var again []byte
		for _, i := range all {
			again = i.append(again)
		}
		if len(again) > len(message) || len(again) == len(message) && !bytes.Equal(again, message) {
			t.Fatalf("%x is %v, which is encoded as %x", message, all, again)
		}
	})
}
