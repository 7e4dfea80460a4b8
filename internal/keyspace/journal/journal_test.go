package journal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

func smallSegments(t testing.TB) {
	size := wal.SegmentSizeBytes
	wal.SegmentSizeBytes = 16 << 10
	t.Cleanup(func() { wal.SegmentSizeBytes = size })
}

func open(t *testing.T, dir string) *Journal {
	t.Helper()
	j, err := Open(dir, "default", 7, "a")
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// has is what a test compares of a journal.
type has struct {
	core.Stored
	State   uint64
	Text    string
	Entries []Entry
}

func read(t *testing.T, j *Journal) has {
	t.Helper()
	index, r, err := j.State()
	must(t, err)
	text, err := io.ReadAll(r)
	must(t, err)
	content, err := j.Content(j.Stored().Last.Index)
	must(t, err)
	entries, err := entriesOf(content)
	must(t, err, content.Close())
	return has{j.Stored(), index, string(text), entries}
}

// entriesOf reads a content, and returns its entries.
func entriesOf(content io.Reader) ([]Entry, error) {
	d, err := newDecoder(content)
	if err != nil {
		return nil, err
	}
	return d.entries()
}

var steps = []func(j *Journal) error{
	func(j *Journal) error { return j.Mark(core.Position{Era: 1}) },
	func(j *Journal) error { return j.Append([]Entry{{3, []byte("a")}}) },
	func(j *Journal) error { return j.Append([]Entry{{3, bytes.Repeat([]byte{'b'}, 700)}}) },
	func(j *Journal) error { return j.Append([]Entry{{4, bytes.Repeat([]byte{'c'}, 300)}}) },
	func(j *Journal) error { return j.Vow(2) },
	func(j *Journal) error { return j.Mark(core.Position{Era: 2, Index: 2}) },
	func(j *Journal) error { return j.Append([]Entry{{7, []byte("d")}}) },
}

// write takes all steps, and returns what the journal had after each.
func write(t *testing.T, j *Journal) (all []has) {
	t.Helper()
	all = append(all, read(t, j))
	for _, step := range steps {
		must(t, step(j), j.Flush())
		all = append(all, read(t, j))
	}
	return all
}

func lastFile(t testing.TB, dir string) (name string, data []byte, end int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, walDir, "*.wal"))
	must(t, err)
	data, err = os.ReadFile(names[len(names)-1])
	must(t, err)
	return names[len(names)-1], data, len(bytes.TrimRight(data, "\x00"))
}

// A journal that is opened again has all writes; one whose end is torn has those before it, to a whole entry.
func TestTorn(t *testing.T) {
	smallSegments(t)
	dir := t.TempDir()
	j := open(t, dir)
	all := write(t, j)
	disk := j.Disk()
	must(t, j.Close())
	j = open(t, dir)
	if got := read(t, j); !reflect.DeepEqual(got, all[len(all)-1]) || j.Disk() != disk {
		t.Fatalf("%+v, want %+v", got, all[len(all)-1])
	}
	must(t, j.Close())
	name, data, end := lastFile(t, dir)
	seen := make(map[core.Stored]bool)
	for cut := end; cut > end-1100; cut -= 4 {
		torn := data[:cut]
		if cut%8 == 0 && cut > sector { // sectors that were not written, in a file that was long before
			torn = append(bytes.Clone(data[:cut-cut%sector]), make([]byte, len(data)-cut+cut%sector)...)
		}
		must(t, os.WriteFile(name, torn, 0o600))
		j := open(t, dir)
		got := read(t, j)
		must(t, j.Close())
		found := false
		for _, h := range all {
			found = found || reflect.DeepEqual(got, h)
		}
		if !found {
			t.Fatalf("cut at %d of %d: %+v is no beginning of the writes", cut, end, got)
		}
		seen[got.Stored] = true
	}
	if len(seen) < 5 {
		t.Errorf("the cuts left %v only", seen)
	}
}

// A changed bit is found wherever it is.
func TestFlippedBits(t *testing.T) {
	smallSegments(t)
	dir := t.TempDir()
	j := open(t, dir)
	all := write(t, j)
	disk := j.Disk()
	must(t, j.Close())
	name, data, end := lastFile(t, dir)
	found := 0
	for i := 0; i < end*8; i += 11 {
		changed := bytes.Clone(data)
		changed[i/8] ^= 1 << (i % 8)
		must(t, os.WriteFile(name, changed, 0o600))
		j, err := Open(dir, "default", 7, "a")
		if errors.Is(err, ErrDamaged) {
			found++
			continue
		}
		must(t, err)
		if got := read(t, j); !reflect.DeepEqual(got, all[len(all)-1]) || j.Disk() != disk {
			t.Fatalf("bit %d of byte %d: %+v", i%8, i/8, got)
		}
		must(t, j.Close())
	}
	if found < end/2 {
		t.Errorf("%d of %d changes were found", found, end*8/11)
	}
	if _, err := SetAside(dir); err != nil {
		t.Fatal(err)
	}
	j = open(t, dir)
	if d := j.Disk(); d.Name != disk.Name || d.Identity == disk.Identity || j.Stored() != (core.Stored{}) {
		t.Errorf("%+v after %+v, with %+v", d, disk, j.Stored())
	}
	must(t, j.Close())
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// A checkpoint keeps the content, and the log before it is removed. A changed bit of its file is found.
func TestCheckpoint(t *testing.T) {
	smallSegments(t)
	dir := t.TempDir()
	j := open(t, dir)
	must(t, j.Mark(core.Position{Era: 1}))
	state := strings.Repeat("state", 100_000)
	for i := range uint64(200) {
		must(t, j.Append([]Entry{{i + 1, bytes.Repeat([]byte{'x'}, 1000)}}))
		if i%50 != 49 {
			continue
		}
		must(t, j.Flush())
		c, err := j.Prepare(i-5, text(state))
		must(t, err)
		must(t, j.Append([]Entry{{i + 1, []byte("meanwhile")}}), j.Checkpoint(c), j.Vow(i), j.Flush())
	}
	want := read(t, j)
	content, err := j.Content(want.Last.Index - 1)
	must(t, err)
	a, err := j.Receive(content)
	must(t, err)
	if want.State != 194 || want.Text != state || len(want.Entries) != 10 || want.Promised != 199 {
		t.Fatalf("state %d, %d entries, %+v", want.State, len(want.Entries), want.Stored)
	}
	names, err := filepath.Glob(filepath.Join(dir, walDir, "0*.wal"))
	if err != nil || len(names) > 4 {
		t.Errorf("the log has %v, %v", names, err)
	}
	must(t, j.Close())
	j = open(t, dir)
	if got := read(t, j); !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v %d, want %+v %d", got.Stored, got.State, want.Stored, want.State)
	}
	_, err = os.Stat(a.file.Name())
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a content that was not stored is left: %v", err)
	}
	must(t, j.Close())
	file := filepath.Join(dir, contentDir, contentName(j.now.at))
	data, err := os.ReadFile(file)
	must(t, err)
	for i := 1; i < len(data); i += len(data)/20 + 1 {
		data[i] ^= 4
		must(t, os.WriteFile(file, data, 0o600))
		if _, err := Open(dir, "default", 7, "a"); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d: %v", i, err)
		}
		data[i] ^= 4
	}
}

// A content of another disk replaces the own one. One that is incomplete is refused.
func TestStore(t *testing.T) {
	smallSegments(t)
	j, k := open(t, t.TempDir()), open(t, t.TempDir())
	must(t, j.Mark(core.Position{Era: 1}), j.Append([]Entry{{1, []byte("a")}, {1, []byte("b")}, {1, []byte("c")}}))
	c, err := j.Prepare(1, text("A"))
	must(t, err)
	must(t, j.Checkpoint(c))
	r, err := j.Content(2) // before it is flushed
	must(t, err)
	data, err := io.ReadAll(r)
	must(t, err)
	must(t, j.Flush(), j.Close())
	if _, err := k.Receive(bytes.NewReader(data[:len(data)-1])); !errors.Is(err, ErrContent) {
		t.Errorf("an incomplete content: %v", err)
	}
	a, err := k.Receive(bytes.NewReader(data))
	must(t, err)
	base := core.Position{Era: 5, Index: a.Index()}
	must(t, k.Append([]Entry{{1, []byte("old")}}))
	k.Store(base, a)
	want := has{core.Stored{Promised: 5, Last: base}, 1, "A", []Entry{{1, []byte("b")}}}
	if got := read(t, k); !reflect.DeepEqual(got, want) {
		t.Errorf("before the flush: %+v", got)
	}
	must(t, k.Append([]Entry{{2, []byte("d")}}), k.Flush(), k.Close())
	k = open(t, k.dir)
	want.Last, want.Entries = core.Position{Era: 5, Index: 3, Term: 2}, append(want.Entries, Entry{2, []byte("d")})
	if got := read(t, k); !reflect.DeepEqual(got, want) {
		t.Errorf("after a restart: %+v", got)
	}
	must(t, k.Close())
}

// A content whose record is not in the log is left out: the process ended between the two.
func TestContentWithoutRecord(t *testing.T) {
	smallSegments(t)
	dir := t.TempDir()
	j := open(t, dir)
	all := write(t, j)
	c, err := j.Prepare(2, text("ab"))
	must(t, err)
	_, err = c.finish(j.Entries(2, 3))
	must(t, err, j.keep(c.f, j.next), j.Close())
	j = open(t, dir)
	if got := read(t, j); !reflect.DeepEqual(got, all[len(all)-1]) {
		t.Errorf("%+v", got)
	}
	must(t, j.Close())
}

// A directory of somebody else is refused, with what to do.
func TestRefused(t *testing.T) {
	smallSegments(t)
	dir := t.TempDir()
	j := open(t, dir)
	refused := func(dir, keyspace, member, what string) {
		t.Helper()
		if _, err := Open(dir, keyspace, 7, member); !errors.Is(err, ErrUsed) || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
	refused(dir, "default", "a", "another process uses "+dir)
	must(t, j.Close())
	refused(dir, "other", "a", `has the keyspace "default"`)
	refused(dir, "default", "b", `is of the gateway "a"`)
	if _, err := Open(dir, "default", 8, "a"); !errors.Is(err, ErrUsed) || !strings.Contains(err.Error(), "the controllers know 8") {
		t.Errorf("%v", err)
	}
	etcd := t.TempDir()
	must(t, os.Mkdir(filepath.Join(etcd, "member"), 0o700))
	refused(etcd, "default", "a", `has "member"`)
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(file, "default", 7, "a"); err == nil || !strings.Contains(err.Error(), "name another") {
		t.Errorf("a file: %v", err)
	}
	must(t, open(t, dir).Close())
	for dir, want := range map[string]uint64{dir: 7, t.TempDir(): 0} {
		if id, err := Known(dir); id != want || err != nil {
			t.Errorf("%d, %v, want %d", id, err, want)
		}
	}
}

// A directory of another format is refused, and left as it is: it is neither damaged nor lost.
func TestOtherFormat(t *testing.T) {
	smallSegments(t)
	for _, other := range []int{0, format + 1} {
		dir := t.TempDir()
		must(t, os.Mkdir(filepath.Join(dir, contentDir), 0o700))
		id := draw("default", 7, "a")
		id.Format = other
		b, err := id.encode()
		must(t, err)
		w, err := wal.Create(zap.NewNop(), filepath.Join(dir, walDir), b)
		must(t, err)
		must(t, w.Save(&raftpb.HardState{}, []*raftpb.Entry{{Index: proto.Uint64(1), Term: proto.Uint64(1), Data: []byte{99}}}), w.Close())
		_, before, _ := lastFile(t, dir)
		_, err = Open(dir, "default", 7, "a")
		if !errors.Is(err, ErrUsed) || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "use the program that made it") {
			t.Errorf("format %d: %v", other, err)
		}
		if _, after, _ := lastFile(t, dir); !bytes.Equal(before, after) {
			t.Errorf("format %d: the log was changed", other)
		}
	}
}
