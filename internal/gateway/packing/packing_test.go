package packing

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// object is like a Kubernetes object: words that all have, and some that are its own.
func object(i int) []byte {
	rng := rand.New(rand.NewPCG(1, uint64(i)))
	var b bytes.Buffer
	fmt.Fprintf(&b, "k8s\x00\n\x0fcoordination/v1\x12Pod\x00name: web-%08x-%05x namespace: default uid: %016x-%016x\n",
		rng.Uint32(), rng.Uint32N(1<<20), rng.Uint64(), rng.Uint64())
	for j := range 12 {
		fmt.Fprintf(&b, "managedFields: f:metadata f:labels f:pod-template-hash %x "+
			"f:spec f:containers k:{\"name\":\"c%d\"} image: registry/web:%d\n",
			rng.Uint32(), j, rng.IntN(9))
	}
	return b.Bytes()
}

func trained(t *testing.T, from int) []byte {
	t.Helper()
	var s Samples
	for i := range 200 {
		s.See(object(from + i))
	}
	text, err := s.Train()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestPack(t *testing.T) {
	a, b := New(), New()
	if _, ok := a.Pack(object(1)); ok {
		t.Error("packed without a dictionary")
	}
	first, second := trained(t, 0), trained(t, 1000)
	for _, s := range []*Set{a, b} {
		if err := s.Add(1, first); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		value := object(5000 + i)
		packed, ok := a.Pack(value)
		if !ok || 2*len(packed) > len(value) {
			t.Fatalf("%d bytes are packed to %d", len(value), len(packed))
		}
		if got, err := b.Unpack(packed); err != nil || !bytes.Equal(got, value) {
			t.Fatalf("%q, %v, want %q", got, err, value)
		}
	}
	old, _ := a.Pack(object(7))
	if err := a.Add(2, second); err != nil {
		t.Fatal(err)
	}
	packed, _ := a.Pack(object(7))
	if _, err := b.Unpack(packed); !errors.Is(err, ErrUnknownDictionary) {
		t.Errorf("a dictionary that is not known: %v", err)
	}
	if got, err := a.Unpack(old); err != nil || !bytes.Equal(got, object(7)) {
		t.Errorf("an older dictionary: %v", err)
	}
	for _, damaged := range []string{"", "\xff", packed[:1], packed[:len(packed)/2]} {
		if got, err := a.Unpack(damaged); err == nil && len(got) > 0 {
			t.Errorf("%q is unpacked to %q", damaged, got)
		}
	}
}

// TestSameNumber: keys that were deleted from etcd beside running gateways lead to a second dictionary of the same
// number.
func TestSameNumber(t *testing.T) {
	a, b := New(), New()
	if err := errors.Join(a.Add(1, object(1)), b.Add(1, bytes.ToUpper(object(1)))); err != nil {
		t.Fatal(err)
	}
	packed, _ := a.Pack(object(2))
	if got, err := b.Unpack(packed); !errors.Is(err, ErrUnknownDictionary) {
		t.Errorf("with another dictionary: %q, %v", got, err)
	}
}

// TestLongValue: a value that is longer than the limit is not cut.
func TestLongValue(t *testing.T) {
	s := New()
	if err := s.Add(1, object(1)); err != nil {
		t.Fatal(err)
	}
	for _, length := range []int{maxValueBytes, maxValueBytes + 1} {
		packed, _ := s.Pack(make([]byte, length))
		got, err := s.Unpack(packed)
		if whole := err == nil && len(got) == length; whole != (length <= maxValueBytes) || !whole && err == nil {
			t.Errorf("%d bytes are unpacked to %d: %v", length, len(got), err)
		}
	}
}

func TestTrainNeedsValues(t *testing.T) {
	var s Samples
	for range MinSamples - 1 {
		s.See([]byte("x"))
	}
	s.See(nil)
	if _, err := s.Train(); err == nil {
		t.Error("trained on too few values")
	}
}

func BenchmarkPack(b *testing.B) {
	s := New()
	var samples Samples
	for i := range 200 {
		samples.See(object(i))
	}
	text, err := samples.Train()
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Add(1, text); err != nil {
		b.Fatal(err)
	}
	value := object(5000)
	packed, _ := s.Pack(value)
	share := float64(len(packed)) / float64(len(value))
	b.Run("pack", func(b *testing.B) {
		for b.Loop() {
			s.Pack(value)
		}
		b.ReportMetric(float64(len(value)), "value-bytes")
		b.ReportMetric(share, "packed-share")
		b.ReportMetric(float64(len(text)), "dictionary-bytes")
	})
	b.Run("unpack", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Unpack(packed); err != nil {
				b.Fatal(err)
			}
		}
	})
}
