package core

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Record is what a member says in etcd's log. The zero Record is that of a member which says nothing: plain etcd, or a
// member that has just started.
type Record struct {
	Serial uint64 // of the proposal: no two proposals of a member have the same record
	Number uint64 // of this attempt to join; 0: the member does not want to join
	View   uint64 // that the member has joined; 0: none
	Left   uint64 // the last view in which the member ended its fast reads; 0: none in this life
}

const (
	recordFormat = "netcraq.1."
	recordFields = 4
	// MaxRecord is the greatest length of a record's text.
	MaxRecord = len(recordFormat) + recordFields*16 + recordFields - 1
)

// Plain reports whether the member says nothing.
func (r Record) Plain() bool { return r == Record{} }

// String returns the text of a record: letters, digits and dots. It is empty for a plain record.
func (r Record) String() string {
	if r.Plain() {
		return ""
	}
	text := []byte(recordFormat)
	for i, n := range []uint64{r.Serial, r.Number, r.View, r.Left} {
		if i > 0 {
			text = append(text, '.')
		}
		text = strconv.AppendUint(text, n, 16)
	}
	return string(text)
}

// ErrRecord is the error of a text that is no record: of another release, or of somebody else.
var ErrRecord = errors.New("no record of a member that this release can read")

// ParseRecord reads the text of a record. It accepts exactly what [Record.String] returns.
func ParseRecord(text string) (Record, error) {
	if text == "" {
		return Record{}, nil
	}
	body, ours := strings.CutPrefix(text, recordFormat)
	if !ours || len(text) > MaxRecord {
		return Record{}, ErrRecord
	}
	parts := strings.Split(body, ".")
	if len(parts) != recordFields {
		return Record{}, ErrRecord
	}
	var fields [recordFields]uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 16, 64)
		if err != nil {
			return Record{}, ErrRecord
		}
		fields[i] = n
	}
	r := Record{fields[0], fields[1], fields[2], fields[3]}
	if r.String() != text || r.View != 0 && r.Number == 0 {
		return Record{}, ErrRecord
	}
	return r, nil
}

// Member is a member of etcd's list, a learner too, with its record. A record that cannot be parsed counts as plain.
type Member struct {
	ID     uint64
	Record Record
}

// Phase is what the members' records say together.
type Phase uint8

// The phases.
const (
	Off     Phase = iota // some member does not want to join
	Joining              // all members want to join, and not all have joined the same view
	On                   // all members have joined the same view
)

func (p Phase) String() string { return [...]string{"off", "joining", "on"}[p] }

// State is what the members' records say together. It is a pure function of etcd's applied log, so it is equal at all
// members that have applied the same entries.
type State struct {
	Phase Phase
	View  uint64 // that is being joined or on; 0 if Phase is [Off]
	Quiet bool   // no record says that its member has joined
}

// StateOf returns the state that the records of all members give.
func StateOf(members []Member) State {
	s := State{View: View(members), Quiet: true}
	joined := 0
	for _, m := range members {
		if m.Record.View != 0 {
			s.Quiet = false
		}
		if s.View != 0 && m.Record.View == s.View {
			joined++
		}
	}
	switch {
	case s.View == 0:
	case joined == len(members):
		s.Phase = On
	default:
		s.Phase = Joining
	}
	return s
}

// View names the members with their numbers. It is 0 if a member has no number, or if there is no member.
func View(members []Member) uint64 {
	sorted := slices.SortedFunc(slices.Values(members), func(a, b Member) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	text := make([]byte, 0, 16*len(sorted))
	for _, m := range sorted {
		if m.Record.Number == 0 {
			return 0
		}
		text = binary.BigEndian.AppendUint64(text, m.ID)
		text = binary.BigEndian.AppendUint64(text, m.Record.Number)
	}
	if len(sorted) == 0 {
		return 0
	}
	sum := sha256.Sum256(text)
	return max(1, binary.BigEndian.Uint64(sum[:]))
}
