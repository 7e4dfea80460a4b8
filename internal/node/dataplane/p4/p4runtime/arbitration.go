package p4runtime

import (
	"cmp"
	"maps"
	"slices"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	maxRoles   = 16
	maxStreams = 64 // of one role
)

// electionID is an election id of 128 bits.
type electionID struct{ high, low uint64 }

func (a electionID) less(b electionID) bool {
	return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.low, b.low)) < 0
}

// idOf reads an election id; nil: it is not set.
func idOf(id *p4v1.Uint128) *electionID {
	if id == nil {
		return nil
	}
	return &electionID{id.GetHigh(), id.GetLow()}
}

// notice tells a stream the state of its role's election.
type notice struct {
	stream  int
	role    string
	highest *electionID // nil: there was no primary yet
	code    codes.Code  // OK for the primary
}

// election is that of one role.
type election struct {
	highest *electionID // that was ever a primary's
	ids     map[int]*electionID
	primary int // a stream; 0: none
}

// elections decide which controller is primary. Streams have numbers from 1 on.
type elections struct {
	byRole  map[string]*election
	streams map[int]string // role of each stream
}

func newElections() *elections {
	return &elections{byRole: map[string]*election{"": newElection()}, streams: make(map[int]string)}
}

func newElection() *election { return &election{ids: make(map[int]*electionID)} }

// update takes what a stream says about itself. An error ends the stream.
func (e *elections) update(stream int, role string, id *electionID) ([]notice, error) {
	was, known := e.streams[stream]
	if known && was != role {
		return nil, status.Errorf(codes.FailedPrecondition,
			"this stream has the role %q: open another stream for the role %q", was, role)
	}
	of := e.byRole[role]
	if of == nil {
		if len(e.byRole) == maxRoles {
			return nil, status.Errorf(codes.ResourceExhausted, "the switch has %d roles already", maxRoles)
		}
		of = newElection()
	}
	for other, theirs := range of.ids {
		if other != stream && id != nil && theirs != nil && *theirs == *id {
			return nil, invalid("another controller of the role %q has this election id", role)
		}
	}
	if !known && len(of.ids) == maxStreams {
		return nil, status.Errorf(codes.ResourceExhausted, "the role %q has %d streams already", role, maxStreams)
	}
	e.byRole[role], e.streams[stream], of.ids[stream] = of, role, id
	if id != nil && (of.highest == nil || !id.less(*of.highest)) {
		of.highest, of.primary = id, stream
		return of.notices(role), nil
	}
	if of.primary == stream {
		of.primary = 0
		return of.notices(role), nil
	}
	return []notice{of.notice(role, stream)}, nil
}

// leave forgets a stream that has ended.
func (e *elections) leave(stream int) []notice {
	role, known := e.streams[stream]
	if !known {
		return nil
	}
	of := e.byRole[role]
	delete(e.streams, stream)
	delete(of.ids, stream)
	if of.primary != stream {
		return nil
	}
	of.primary = 0
	return of.notices(role)
}

func (e *election) notices(role string) []notice {
	var all []notice
	for _, stream := range slices.Sorted(maps.Keys(e.ids)) {
		all = append(all, e.notice(role, stream))
	}
	return all
}

func (e *election) notice(role string, stream int) notice {
	n := notice{stream: stream, role: role, highest: e.highest, code: codes.AlreadyExists}
	switch e.primary {
	case stream:
		n.code = codes.OK
	case 0:
		n.code = codes.NotFound
	}
	return n
}

// isPrimary reports whether a stream is its role's primary.
func (e *elections) isPrimary(stream int) bool {
	role, known := e.streams[stream]
	return known && e.byRole[role].primary == stream
}

// primaries are the primary streams of all roles.
func (e *elections) primaries() []int {
	var all []int
	for _, of := range e.byRole {
		if of.primary != 0 {
			all = append(all, of.primary)
		}
	}
	return all
}

// check says whether a controller with a role and an election id may change the switch.
func (e *elections) check(role string, id *electionID) error {
	of := e.byRole[role]
	switch {
	case of == nil:
		return status.Errorf(codes.NotFound, "the switch has no role %q: a stream of a controller makes one", role)
	case of.primary == 0:
		return status.Errorf(codes.PermissionDenied,
			"the role %q has no primary: send an election id on a stream first", role)
	case id == nil || *id != *of.highest:
		return status.Errorf(codes.PermissionDenied, "another controller is primary of the role %q: its election id is %d:%d",
			role, of.highest.high, of.highest.low)
	}
	return nil
}
