package core

// Rule names a rule of the gateway that tests can switch off, to prove that its absence is noticed.
type Rule uint64

// The rules.
const (
	Intent          Rule = 1 << iota // a write of a placed key sets the gateway's bit first
	Fence                            // a write of unknown outcome ends when the session key has been rewritten
	Guard                            // every write names the session key's mod_revision
	Ticket                           // RESOLVE clears a bit with its current ticket only
	Joining                          // an object is not readable until every session has acknowledged it
	Push                             // nothing reveals a revision before the chain has it
	ReadOrder                        // a read asks for the revision first, then for the key
	Drain                            // a gateway acknowledges an instance when its writes of the one before have ended
	Instance                         // operations name the instance of their object, and only CREATE makes one
	SessionFirst                     // a gateway has a session before it reads the directory
	AbsentRevision                   // "absent" has a revision of its own
	PushBeforeWatch                  // watch events wait for the push too
	Services                         // a gateway executes locks and elections itself
	Leases                           // a key with a lease is not cacheable
	SameOutcome                      // a branch that is executed by itself names what its outcome depends on
	ReadBehind                       // keys that a transaction does not read itself are read after it
	Hide                             // clients' ranges leave out the gateways' own keys
	Inherited                        // no read is answered from an object that was placed before the session
	AuthWait                         // calls pass by a cache that ended when no other gateway answers from the chain
	AuthPass                         // they pass only while etcd refuses requests without a token
	Newest                           // etcd executes the gateway's requests on its newest state
	AuthRevision                     // another authentication revision of etcd makes another session
	AuditWaits                       // a change of etcd is kept until its object tells who made it
	AuditNamed                       // it is compared with an object that the directory names
	Takeover                         // gateways answer for the keys of those that are gone
	WriteUnplaced                    // a gateway without a session writes only while nothing is placed
	ShowUnplaced                     // it shows only revisions at which, or after which, nothing was placed
	Timeline                         // sessions, and the directory's count, are of the gateway's timeline
	Lapse                            // a session that was not extended in time is given up
	PushInTime                       // nothing is pushed, and shown after a push, unless the session lasts
	NewTimeline                      // an etcd whose revision is below the chain's begins another timeline
	Fresh                            // a key is placed only where the chain has no object of that instance
	Keyless                          // a session has ended when its lease has, not when its key is gone
	OwnBit                           // a write that relies on the gateway's bit names it as a condition
	AllowUnplaced                    // an exclusion ends only when the directory does not name the key
	AllowCounted                     // and that has all entries that gateways made, or no session lasts
	Vanished                         // an entry that no gateway removed stays, unread, until the directory was emptied
	Counted                          // the directory is compared with the number of its entries
	CleanIdle                        // the own keys are deleted only when no gateway has a session
	Unused                           // etcd without keys of gateways is unused only if no session lasts
)

var ruleNames = []string{
	"intent", "fence", "guard", "ticket", "joining", "push", "read-order", "drain", "instance", "session-first",
	"absent-revision", "push-before-watch", "services", "leases", "same-outcome", "read-behind", "hide", "inherited",
	"auth-wait", "auth-pass", "newest", "auth-revision",
	"audit-waits", "audit-named", "takeover", "write-unplaced", "show-unplaced", "timeline", "lapse",
	"push-in-time", "new-timeline", "fresh", "keyless", "own-bit",
	"allow-unplaced", "allow-counted", "vanished", "counted", "clean-idle", "unused",
}

// RuleNames lists the rules that can be switched off, in the order of their bits.
func RuleNames() []string { return ruleNames }
