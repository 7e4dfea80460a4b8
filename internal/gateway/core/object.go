package core

// State is the state of a cached object.
type State uint8

const (
	// Empty is the state of an object that was made and not loaded yet.
	Empty State = iota
	// Value means that the key has a value.
	Value
	// Absent means that the key does not exist.
	Absent
	// NotCacheable means that etcd alone can tell: the key has a lease, or does not fit.
	NotCacheable
	// Packed means that the key has a value, which the caller has compressed.
	Packed
)

func (s State) String() string {
	return [...]string{"empty", "value", "absent", "not cacheable", "packed"}[s]
}

// Entry is a key at a revision.
type Entry struct {
	State   State
	Rev     int64 // the mod_revision; of an absent key, the header of the answer that said so
	Create  int64
	Version int64
	Value   string
}

// MaxGateways is how many gateways one etcd can have: each has a bit in objects.
const MaxGateways = 64

// Object is a cached key in the chain.
type Object struct {
	Instance int64 // new for each placement, and higher than those before
	Joining  bool  // some gateway may still write without INTENT
	Bits     uint64
	Tickets  [MaxGateways]uint32 // of each bit; changes whenever the bit is set
	Counter  uint32              // the last ticket given
	// Floor is etcd's revision when the object was loaded. What was revealed without a push, while nothing was placed, is below.
	Floor int64
	Entry
}

// Readable reports whether a read may be answered from the object.
func (o *Object) Readable() bool {
	return o.Bits == 0 && !o.Joining && (o.State == Value || o.State == Packed || o.State == Absent)
}

// store takes an entry that is newer.
func (o *Object) store(e Entry) {
	if e.Rev > o.Rev {
		o.Entry = e
	}
}

// OpKind is the kind of an operation on the chain.
type OpKind uint8

// The operations. The first two are reads.
const (
	ReadRevision OpKind = iota // answers the shard's epoch and, if there is one, the revision object
	ReadObject
	Max     // raises the revision object; makes it only if Make is set
	Create  // makes an object, empty and joining, in place of one of an older instance
	SetBit  // INTENT: sets the gateway's bit and answers its ticket
	Resolve // stores if newer; clears the bit if the ticket is current
	Load    // stores if newer; ends joining
	Remove  // deletes the object of that instance
)

func (k OpKind) String() string {
	return [...]string{"REVISION", "READ", "MAX", "CREATE", "INTENT", "RESOLVE", "LOAD", "REMOVE"}[k]
}

// Op is one operation on a shard of the chain.
type Op struct {
	Kind     OpKind
	Key      string
	Epoch    uint64 // Max, Create: the epoch of the shard
	Instance int64  // the object's instance
	Bit      uint8
	Ticket   uint32
	Clear    bool // Resolve: clear the bit
	Rev      int64
	Make     bool
	Entry    Entry
}

// Status is the result of an operation.
type Status uint8

// The statuses.
const (
	OK   Status = iota
	Gone        // another instance of the object, or another epoch of the shard; nothing was done
	Miss        // there is no such object
	Full        // there is no room for it
	Away        // a read was not answered in time
)

func (s Status) String() string { return [...]string{"OK", "GONE", "MISS", "FULL", "AWAY"}[s] }

// Answer is a shard's answer.
type Answer struct {
	Status Status
	Epoch  uint64 // of the shard
	Ticket uint32
	Rev    int64
	Object Object
}
