package core

// Action is something that the caller does for a [Machine].
type Action interface{ action() }

// Propose asks to write a record into the member's own attributes, through etcd's log. It is sent once and has no
// answer: the machine sees in a later [Sample] whether it was applied, and proposes again if it was not.
type Propose struct{ Record Record }

// Renew asks for a sample that is not older than the moment of asking: the caller reads the clock, waits for a
// linearizable read of etcd (LinearizableReadNotify), takes a sample and calls [Machine.Renewed].
type Renew struct{}

// ReadObjects asks to read the objects of members, in one bundle if possible. [Machine.Objects] takes the answer.
type ReadObjects struct {
	Call    uint64
	Members []uint64
}

// WriteObject asks to write the object of the caller's own member by compare-and-set, in one session of the chain's
// protocol. [Machine.Written] takes the answer.
type WriteObject struct {
	Call    uint64
	Version uint64 // that the key must have; 0: the key must be absent
	Epoch   uint64 // that the shard must have
	Object  Object
	// AnyVersion is set only if a test has switched off [OwnObject].
	AnyVersion bool
}

// Look asks for a sample that is taken now: the caller takes one and calls [Machine.Applied].
type Look struct{}

// Ready answers reads: their point is Point. The caller waits until its store has applied Point.Index, and answers as
// of exactly Point.Revision. If it cannot, for instance because the revision is compacted, it reads as after [Slow].
type Ready struct {
	Reads []uint64
	Point Point
}

// Slow answers reads: the chain cannot tell. The caller asks Raft (ReadIndex), and calls [Machine.Reveal] before it
// shows the answer.
type Slow struct {
	Reads []uint64
	Why   Reason
}

// Show lets what waits in [Machine.Reveal] be shown.
type Show struct{ Reveals []uint64 }

// Left answers [Machine.Leave]: members may be changed, or the process may end.
type Left struct{ Leaves []uint64 }

func (Propose) action()     {}
func (Renew) action()       {}
func (Look) action()        {}
func (ReadObjects) action() {}
func (WriteObject) action() {}
func (Ready) action()       {}
func (Slow) action()        {}
func (Show) action()        {}
func (Left) action()        {}

// Reason is why a read is slow.
type Reason uint8

// The reasons.
const (
	NotOn       Reason = iota // not all members have joined
	NoChain                   // the chain did not answer
	NoObject                  // an object is missing, or counts for another view
	NoSession                 // the session has ended
	BelowJoined               // the register is older than the join or the session
)

func (r Reason) String() string {
	return [...]string{"not on", "no chain", "no object", "no session", "below joined"}[r]
}

// Found is the answer to the read of one object.
type Found struct {
	Exists  bool
	Version uint64 // of the key
	Epoch   uint64 // of the shard
	Value   []byte
}

// Outcome is the answer to a write.
type Outcome uint8

// The outcomes.
const (
	Done    Outcome = iota // the key has the object, with the version of the answer
	Refused                // the key had another version, or the shard another epoch
	Unknown                // it may be executed later
)

// Sample is the applied state of the own member.
type Sample struct {
	Asked   int64    // the time before the sample was begun
	Members []Member // all in etcd's list, learners too
	Applied Point
}
