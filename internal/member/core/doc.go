// Package core decides when an etcd member may answer a linearizable read from its own store, and when it may show a
// revision.
//
// It has no I/O, clock, goroutine or randomness. A [Machine] takes events and returns [Action] values. The caller
// serialises the calls, for instance with a mutex, and performs the actions after it has released the mutex.
//
// # Terms
//
// The chain holds an [Object] for each member. It names a view and the newest [Point] that the member has
// pushed. Only its member writes it. The register is the greatest point of all objects of a view.
//
// A [Record] is the state of a member in etcd's log, in the member's attributes. A member that is ready to join has a
// number in its record, another one for each attempt. [View] is a hash of all members and their numbers, so a
// view never comes back. A member joins a view when its object names it, and says so in its record.
// [StateOf] is on when all records of the members say so.
//
// To show something is to send it to a client: an answer with a header, a watch event, the beginning of a snapshot.
//
// # The caller's duties
//
//   - [Sample.Asked] is read first, then the members, then the revision, then the applied index, then the time of the
//     event.
//   - Samples are taken one after the other, and handed over in this order.
//   - Times are nanoseconds of a clock that counts while the machine is suspended (CLOCK_BOOTTIME).
//   - A [Propose] action is sent at most once. The machine proposes again by itself.
//   - The machine is made when etcd has published the member's own attributes in this life (ReadyNotify).
//   - [Machine.Applied] and [Machine.Tick] are called at least every [Options.Every].
//   - Each call of the chain and each [Renew] gets one answer. A call that takes too long is answered as failed.
//   - A write whose answer is [Unknown] may be executed later, once.
//   - Members are added and removed, and plain etcd is started on the data directory, only after [Left].
//
// # Guarantee
//
// The point that [Ready] gives to a read is at least every revision that any member showed before the read began. A
// member that answers at exactly that revision, after its store has applied the point, shows no revision that is not
// in the register. Each [Rule] that is switched off breaks this; internal/verify/membersim shows how. docs/member.md
// explains the rules.
package core
