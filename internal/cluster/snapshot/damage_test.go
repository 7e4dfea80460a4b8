package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// sample is a small snapshot.
func sample(t testing.TB, objects int) []byte {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "sample"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := newWriter(file, &Header{Cluster: "sample", Shards: 4, CellBytes: 64})
	if err != nil {
		t.Fatal(err)
	}
	for i := range objects {
		if i%10 == 0 { // blocks of ten
			if _, err := w.mark(); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.add(&Object{Key: wire.Key{Hi: uint64(i), Lo: uint64(i)}, Version: 7, Value: make([]byte, i%60)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.finish(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func verify(text []byte) error {
	_, _, err := Verify(bytes.NewReader(text), func(*Object) error { return nil })
	return err
}

func TestEveryCutIsFound(t *testing.T) {
	text := sample(t, 30)
	if err := verify(text); err != nil {
		t.Fatal(err)
	}
	for n := range text {
		want := ErrCut
		if n < len(magic) {
			want = ErrNotSnapshot
		}
		if err := verify(text[:n]); !errors.Is(err, want) {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(text), err)
		}
	}
	if err := verify(append(text, 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("one byte too many: %v", err)
	}
}

func TestEveryTurnedBitIsFound(t *testing.T) {
	text := sample(t, 30)
	for i := range text {
		for bit := range 8 {
			text[i] ^= 1 << bit
			if err := verify(text); err == nil {
				t.Fatalf("bit %d of byte %d was turned, and nobody noticed", bit, i)
			}
			text[i] ^= 1 << bit
		}
	}
}

// Blocks that are right in themselves, but left out, repeated or exchanged.
func TestBlocksInDisorderAreFound(t *testing.T) {
	text := sample(t, 30)
	starts := []int{preludeBytes + int(binary.BigEndian.Uint32(text[len(magic)+4:])) + crcBytes}
	for at := starts[0]; at < len(text); {
		at += blockHeaderBytes + int(binary.BigEndian.Uint32(text[at+1:])) + crcBytes
		starts = append(starts, at)
	}
	part := func(i int) []byte { return text[starts[i]:starts[i+1]] }
	join := func(blocks ...int) []byte {
		out := bytes.Clone(text[:starts[0]])
		for _, i := range blocks {
			out = append(out, part(i)...)
		}
		return out
	}
	var all []int
	for i := range len(starts) - 1 {
		all = append(all, i)
	}
	if err := verify(join(all...)); err != nil {
		t.Fatal(err)
	}
	end := len(all) - 1
	for name, blocks := range map[string][]int{
		"left out": append([]int{1}, all[2:]...), "repeated": append([]int{0}, all...), "exchanged": append([]int{1, 0}, all[2:]...),
		"trailer twice": append(slices.Clone(all), end), "trailer only": {end},
	} {
		if err := verify(join(blocks...)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewerFormat(t *testing.T) {
	text := sample(t, 1)
	binary.BigEndian.PutUint32(text[len(magic):], formatVersion+1)
	if err := verify(text); !errors.Is(err, ErrNewer) {
		t.Error(err)
	}
	if err := verify([]byte("epoch: 1\nshards: 4\nnodes: []\nchains: []\n")); !errors.Is(err, ErrNotSnapshot) {
		t.Error(err)
	}
}

// Nothing of a damaged file is restored.
func TestDamagedFileChangesNothing(t *testing.T) {
	c := startCluster(t, 1, chain.Options{Shards: 4, CellBytes: 64, MaxObjects: 1000})
	text := sample(t, 500)
	text[len(text)-200] ^= 4
	path := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), path, RestoreOptions{Client: c.client, Agents: dial}); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if usage, err := c.planes[0].Usage(); err != nil || usage.Objects != 0 {
		t.Errorf("%+v, %v", usage, err)
	}
}

// Reading any file ends with an error or with the data that the writer wrote.
func FuzzVerify(f *testing.F) {
	text := sample(f, 12)
	random := rand.New(rand.NewPCG(1, 2))
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add([]byte(magic))
	for range 5 {
		changed := bytes.Clone(text)
		changed[random.IntN(len(changed))] ^= 1 << random.IntN(8)
		f.Add(changed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		read := Totals{}
		_, totals, err := Verify(io.LimitReader(bytes.NewReader(text), int64(len(text))), func(o *Object) error {
			read.Objects++
			read.ValueBytes += uint64(len(o.Value))
			return nil
		})
		if err == nil && (totals.Objects != read.Objects || totals.ValueBytes != read.ValueBytes) {
			t.Errorf("%+v, and %+v was read", totals, read)
		}
	})
}

// Blocks whose checksums are right get further: their contents are read.
func FuzzBlock(f *testing.F) {
	f.Add(byte(objectsKind), uint32(1), make([]byte, objectBytes))
	f.Add(byte(objectsKind), uint32(2), append(make([]byte, objectBytes), 1))
	f.Add(byte(trailerKind), uint32(0), make([]byte, trailerBytes))
	start := sample(f, 0)
	start = start[:len(start)-blockHeaderBytes-trailerBytes-crcBytes]
	f.Fuzz(func(t *testing.T, kind byte, count uint32, payload []byte) {
		err := verify(append(bytes.Clone(start), block(kind, count, payload)...))
		if err == nil {
			t.Errorf("a block of kind %d passes for the end of a snapshot", kind)
		}
	})
}
