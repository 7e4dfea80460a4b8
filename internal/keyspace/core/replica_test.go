package core

import (
	"reflect"
	"testing"
)

// follows makes a replica with a disk that follows era 1 of a set.
func follows(t *testing.T, set ...Disk) *Replica {
	t.Helper()
	m := New(Options{Disk: Disk{1, 1}}, Stored{})
	m.Synced(0)
	m.Recorded(Record{Active: Era{Number: 1, Set: set}})
	want := []Action{Mark{1, Position{Era: 1}}, Enter{1}, ReadLog{1, 1, 1}}
	if got := m.Actions(); !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	return m
}

var firstTwo = []Cell{{Index: 1, Term: 3}, {Index: 2, Term: 3}, {}}

// Without a set, an entry counts when the chain has it: the keyspace is in memory.
func TestEmptySet(t *testing.T) {
	m := follows(t)
	m.Read(7) // waits for the next look
	m.Log(1, firstTwo)
	want := []Action{Append{2, 1, 1, 2}, Advance{2}, ReadLog{2, 1, 3}}
	if got := m.Actions(); !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	m.Log(2, []Cell{{}})
	if got := m.Actions(); !reflect.DeepEqual(got, []Action{Ready{[]uint64{7}}}) {
		t.Fatal(got)
	}
}

// With a set, an entry counts when a majority of its disks has synced it, and no other disk.
func TestMajority(t *testing.T) {
	m := follows(t, Disk{1, 1}, Disk{2, 2}, Disk{3, 3})
	m.Log(1, firstTwo)
	if got := m.Actions(); !reflect.DeepEqual(got, []Action{Append{2, 1, 1, 2}}) {
		t.Fatal(got)
	}
	m.Synced(2)
	report := Report{Era: 1, Index: 2}
	if got := m.Actions(); !reflect.DeepEqual(got, []Action{report}) {
		t.Fatal(got)
	}
	m.Reported(Disk{1, 1}, report)
	m.Reported(Disk{2, 9}, report) // emptied
	m.Reported(Disk{4, 4}, report)
	m.Reported(Disk{3, 3}, Report{Era: 2, Index: 2})
	if got := m.Actions(); len(got) > 0 || m.Counted() != 0 {
		t.Fatal(got, m.Counted())
	}
	m.Reported(Disk{3, 3}, Report{Era: 1, Index: 1})
	m.Reported(Disk{2, 2}, report)
	if got := m.Actions(); !reflect.DeepEqual(got, []Action{Advance{1}, Advance{2}}) || m.Counted() != 2 {
		t.Fatal(got, m.Counted())
	}
}

// A writer tells the others what counts, with its next entries or when it is reminded. One that is reading the log then
// reads it again.
func TestWritersTell(t *testing.T) {
	set := []Disk{{1, 1}, {2, 2}, {3, 3}}
	m := follows(t, set...)
	m.Log(1, []Cell{{}})
	m.Synced(1)
	m.Actions()
	m.Written(1, 3, 1, 2)
	if got := m.Actions(); !reflect.DeepEqual(got, []Action{Append{2, 1, 1, 2}}) {
		t.Fatal("entries of the own writer are read from the chain", got)
	}
	told := Report{Era: 1, Index: 2, Log: 2, Counted: 2}
	m.Synced(2)
	if got := m.Actions(); len(got) > 0 {
		t.Fatal("what does not count yet is told", got)
	}
	m.Reported(set[1], Report{Era: 1, Index: 2})
	if got := m.Actions(); !reflect.DeepEqual(got, []Action{Remind{}, Advance{2}}) {
		t.Fatal(got)
	}
	m.Remind()
	m.Remind() // they were told
	if got := m.Actions(); !reflect.DeepEqual(got, []Action{told}) {
		t.Fatal(got)
	}
	m.Written(1, 3, 3, 3)
	m.Synced(3)
	m.Reported(set[1], Report{Era: 1, Index: 3})
	if got := m.Tell(1); got != 3 {
		t.Fatal(got)
	}
	m.Actions()
	m.Remind()
	if got := m.Actions(); len(got) > 0 {
		t.Fatal("what the next entries tell is told again", got)
	}
	other := follows(t, set...)
	other.Reported(Disk{1, 1}, told)
	other.Log(1, []Cell{{}}) // read before
	if got := other.Actions(); !reflect.DeepEqual(got, []Action{ReadLog{2, 1, 1}}) {
		t.Fatal(got)
	}
	other.Log(2, []Cell{{}})
	if got := other.Actions(); len(got) > 0 {
		t.Fatal("a report that is wrong has the log read again and again", got)
	}
}

// Entries that a writer hands over count as read if they follow the last one that was read. Others are read from the chain.
func TestPushed(t *testing.T) {
	m, writer := follows(t), Disk{2, 2}
	actions := func(want ...Action) {
		t.Helper()
		if got := m.Actions(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	m.Read(7)
	m.Pushed(writer, 1, 3, 1, 2) // while the log is being read
	actions(Append{2, 1, 1, 2}, Advance{2})
	m.Pushed(writer, 1, 3, 1, 2)
	m.Pushed(writer, 1, 2, 3, 3)
	m.Pushed(writer, 2, 3, 3, 3)
	actions()
	m.Pushed(writer, 1, 3, 2, 4)
	actions(Append{3, 1, 3, 4}, Advance{4})
	m.Log(1, []Cell{{Index: 1, Term: 3}, {Index: 50, Term: 9}}) // it was behind before the push
	actions(ReadLog{2, 1, 5})
	m.Pushed(writer, 1, 4, 6, 6) // there is one between
	actions()
	m.Log(2, []Cell{{}}) // read before
	actions(Ready{[]uint64{7}}, ReadLog{3, 1, 5})
	m.Log(3, []Cell{{Index: 5, Term: 4}, {Index: 6, Term: 4}})
	actions(Append{4, 1, 5, 6}, Advance{6}, ReadLog{4, 1, 7})
}

// A disk reports to the writer that hands entries over, which says what counts, and to all while it knows none.
func TestReportsToTheWriter(t *testing.T) {
	set := []Disk{{1, 1}, {2, 2}, {3, 3}}
	m := follows(t, set...)
	actions := func(want ...Action) {
		t.Helper()
		if got := m.Actions(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	m.Log(1, []Cell{{}})
	m.Synced(1)
	actions(Report{Era: 1})
	m.Pushed(set[1], 1, 3, 1, 2)
	m.Synced(2)
	actions(Append{2, 1, 1, 2}, Report{Era: 1, Index: 2, To: set[1]})
	m.Reported(set[1], Report{Era: 2, Index: 2, Log: 2, Counted: 2})
	actions()
	m.Reported(Disk{4, 4}, Report{Era: 1, Counted: 2}) // the writer's disk need not count
	actions(Advance{2})
	m.Repeat()
	actions(Report{Era: 1, Index: 2, Counted: 2})
	m.Poll() // entries came since the last time
	actions()
	m.Poll()
	actions(ReadLog{2, 1, 3})
	m.Log(2, []Cell{{Index: 3, Term: 4}}) // of another writer
	m.Synced(3)
	actions(Append{3, 1, 3, 3}, ReadLog{3, 1, 4}, Report{Era: 1, Index: 3, Counted: 2})
}

// A disk that answers again brings a recovery no further, and is not asked again.
func TestRepeatedAnswers(t *testing.T) {
	here, away := Disk{1, 1}, Disk{2, 2}
	m := Recover(0, Record{}, []Disk{here, away, {3, 3}})
	m.Actions()
	m.Wrote(true)
	if got := m.Actions(); !reflect.DeepEqual(got, []Action{InstallBase{Position{Era: 1}, []Disk{here, away, {3, 3}}}}) {
		t.Fatal(got)
	}
	installed := Answer{Last: Position{Era: 1}}
	m.Installed(here, installed)
	come := m.Progress()
	m.Installed(here, installed)
	m.Retry()
	if got := m.Actions(); m.Progress() != come || !reflect.DeepEqual(got, []Action{InstallBase{Position{Era: 1}, []Disk{away, {3, 3}}}}) {
		t.Fatal(got, m.Progress(), come)
	}
	if m.Installed(away, installed); m.Progress() == come {
		t.Fatal("a majority has installed the state, and the recovery has come no further")
	}
}

// The ring was full of entries that do not count when a recovery sealed it, and ended: the next one finds the seal in
// the cell of an entry that no disk has.
func TestSealedRing(t *testing.T) {
	set := []Disk{{1, 1}, {2, 2}, {3, 3}}
	m := Recover(0, Record{Active: Era{Number: 2, Set: set, Base: Position{Era: 1, Index: 8}}, Recovering: 3}, set)
	m.Wrote(true)
	last := Position{Era: 2, Index: 8}
	m.Promised(set[0], Answer{Last: last})
	m.Promised(set[1], Answer{Last: last})
	if !m.Taken(last) {
		t.Fatal("not adopted")
	}
	m.Actions()
	m.Found(9, Cell{Index: 20, Term: 29, Seal: true})
	want := []Action{InstallBase{Position{Era: 4, Index: 8}, set}}
	if got := m.Actions(); !reflect.DeepEqual(got, want) {
		t.Fatal(got)
	}
}
