// Package core is the gateway as a pure state machine: requests, answers and directory changes in, calls and replies out.
//
// It has no I/O, clock, goroutine or randomness. The caller serialises calls, performs the [Effect] values that
// [Gateway.Effects] returns, in any order, and returns the result of each.
//
// # Parts
//
// etcd is the durable store. A chain holds cached [Object] values, one for each placed key, and the newest revision that
// any gateway has revealed. [Cell.Apply] executes each [Op] in the chain. A directory in etcd names the placed keys, with
// the instance of each object. A gateway has a session in etcd, under a lease, and a bit in objects.
//
// # The caller's duties
//
//   - A [ChainCall] that changes something is repeated, in one session of the chain's protocol, until it is answered, so
//     that a shard executes it at most once while it keeps its state. A read may be answered with [Away] instead.
//   - An [EtcdCall] is sent once. If its outcome is not known, the result says so.
//   - The session's lease is kept alive while the gateway lives, and dies with it.
//   - Directory changes are handed over in etcd's order, without gaps, from the revision that [WatchDirectory] names.
//
// # Guarantees
//
// Every reply is linearizable, its header included: header.revision never goes back in real time, over replies and watch
// deliveries, and a reply with header R shows exactly the newest write of its key up to R. Each [Rule] that is switched off
// breaks this; internal/verify/gatewaysim shows how.
//
// # Rules
//
// Tests can switch each of these off. What happens without one is behind "Else".
//
//   - intent: Before a write of a placed key commits in etcd, INTENT sets the gateway's bit in the object and answers a
//     ticket. GONE (no such object, or another instance): the write goes on without a bit. Else: a hit shows the value
//     before a write that was acknowledged.
//   - guard: Every transaction is executed under a condition on the session key's mod_revision. Else: the transaction
//     of a gateway that died commits after its bit was cleared.
//   - fence: A write of unknown outcome counts as under way until the session key has been rewritten. It is never
//     retried. Then only a clean-up clears its bit. Else: it commits late, after its bit was cleared, or twice.
//   - ticket: RESOLVE clears a bit only if the ticket that it names is the bit's current one. Else: a late RESOLVE
//     clears the bit of a newer write.
//   - instance: INTENT, RESOLVE, LOAD and REMOVE name the object's instance; only CREATE makes an object. Else:
//     after a shard was lost, one gateway's INTENT makes an object readable while another's write is under way without
//     a bit.
//   - joining: A new object is not readable until every session has acknowledged its instance or has ended. Else: A
//     RESOLVE makes it readable while another gateway still writes without INTENT.
//   - drain: A gateway acknowledges an instance when its own writes that began under an older one have ended. Else: a
//     write without a bit commits after LOAD.
//   - session-first: A gateway has a session before it reads the directory. Else: no gateway waits for it, and it
//     writes a key that it does not know to be placed.
//   - push: A message that reveals a revision (an answer, a RESOLVE, a LOAD) waits until the revision object has it.
//     Else: the header of a hit is below one that was seen before.
//   - push-before-watch: Events of watches wait in the same way. Else: a client sees an event, and then an older
//     header.
//   - read-order: A read asks for the revision first, then for the key. Else: the header claims a write that the value
//     does not show.
//   - absent-revision: *Absent* has a revision of its own: the header of the answer that said so. Else: header 52 says
//     that a key is absent that was deleted at 53.
//   - services: A gateway executes locks and elections itself. Else: etcd makes a placed key without INTENT: reads show
//     it absent.
//   - leases: A key with a lease is not cacheable. Else: etcd deletes the key when the lease ends: reads show it.
//   - same-outcome: The branch of a transaction that is executed alone has a condition under which the outcome is still
//     the same. Else: the other branch should have been executed.
//   - read-behind: Keys that a transaction does not read at its end are read after it, before RESOLVE. Else: RESOLVE
//     makes an older value readable.
//   - inherited: A hit counts only if the object was placed after the gateway's session began. Else: writes of the time
//     before are missing: clients may have used etcd directly, or gateways passed writes on without the guard.
//   - lapse: A session that was not extended in time is given up. None of its own requests is sent after that. Else:
//     etcd was restored meanwhile, and has the session: reads show values that are lost.
//   - timeline: Sessions begin, and count as extended, in the gateway's timeline only, and a count of another timeline
//     is none. Else: writes set no bits in the objects that others read.
//   - push-in-time: A revision is pushed, and shown after a push, only while the session lasts, or if a member of etcd
//     has had the timeline since. Else: a gateway that has not noticed the new timeline shows a revision, and one of
//     the new timeline a lower one.
//   - new-timeline: An etcd whose revision is below the chain's begins another timeline. Else: headers are above etcd's
//     revision.
//   - fresh: A key is placed only where the chain has no object of the placement's instance, or of a later one. Else:
//     etcd was restored, and the object that is there has a value that is lost.
//   - newest: A request without writes and linearizable reads gets a read, so that etcd executes it on its newest
//     state. Else: the guard is compared with an old state of a member; a header is older than one that was shown.
//   - hide: Clients' ranges leave out the gateways' own keys, at every gateway. Else: del "" --prefix deletes sessions,
//     acknowledgements and the directory.
//   - audit-waits: A change of a placed key in etcd is kept until the key's object tells who made it: not while a write
//     is under way, or the session may have ended. Else: a write past the gateways is not noticed, and reads stay
//     older.
//   - audit-named: It is compared with an object that the directory names. Else: a gateway without its chain takes its
//     own writes for writes past the gateways.
//   - keyless: A session has ended when etcd has no lease of it, not when its key is gone: a client of etcd may have deleted
//     that. Gateways wait for every session that they have met, and write its key again. Else: its gateway, whose watch
//     is late, answers from an object that writes of others do not mark any more.
//   - own-bit: A write that relies on the gateway's bit names the revision that made its key as a condition. A clean-up
//     and a repeated write check it. Else: a client of etcd has deleted the bit's key, and another gateway clears the bit
//     before the write commits.
//   - vanished: A change of the directory that does not write its count is a client's of etcd. The keys stay
//     placed, and no object is read, until every session has acknowledged that. Else: gateways that know of it write
//     without INTENT, and one whose watch is late reads an older value.
//   - counted: A gateway that begins compares the entries with their count. If they differ it neither serves nor
//     pushes until the directory was emptied. Else: it writes without INTENT.
//   - allow-unplaced: An operator ends the exclusion of a key, which a write past the gateways began, only when the
//     directory does not name the key. Else: the object that lacks the write stays, and reads show it.
//   - allow-counted: And only when the directory has all entries that gateways made, or no session lasts. Else: a
//     client of etcd has deleted the key's entry, and a gateway whose watch is late answers from the object.
//   - clean-idle: An operator deletes the own keys only when no gateway has a session. Else: clients write to etcd
//     directly, and gateways go on to answer from objects.
//   - unused: A gateway that has had no session takes an etcd without keys of gateways for unused only if etcd has no
//     lease of a session, and while none begins. Else: a client of etcd has deleted all keys, and a gateway writes
//     without INTENT while another one, whose watch is late, answers from objects.
//   - takeover: Gateways answer for the keys of those that are gone. Else: nobody notices a write of such a key past
//     the gateways.
//   - write-unplaced: A gateway without a session has etcd execute a write only while nothing is placed. Else: a write
//     without INTENT: reads at other gateways stay older.
//   - show-unplaced: Without a session it shows an answer only if nothing was placed at its revision or after it, or
//     when the chain has that. Else: the header of a hit is below one that was seen before.
//   - auth-wait: After the end of a cache calls wait until no other gateway answers from the chain. Else: a write
//     passes without INTENT, and another gateway reads an older value from the chain.
//   - auth-pass: Calls and their answers pass by a cache that ended only while etcd refuses requests without a token.
//     Else: a write passes without INTENT when others cache again.
//   - auth-revision: After another authentication revision of etcd, nothing is cached for a while, and then under a new
//     session. Else: a gateway caches while another one passes writes on.
//
// These have no switch, because the machine cannot work without them:
//
//   - The object is made before the directory names it; removing deletes the object first, then the entry.
//   - The keys of one round are entered by one transaction, which names the directory's count. If another gateway
//     changed the directory meanwhile, keys whose entries are as before are placed from the start.
//   - An instance is the revision at which the directory was read, and the gateway's bit. So it takes no write.
//   - A gateway writes its acknowledgement only if the entry is another session's, or the directory closed.
//   - A bit belongs to the session's lease, so it is free only when its owner's session has ended.
//   - A hit counts only if the directory still names the key with the same instance, and is not closed, after the
//     object was read.
//   - RESOLVE clears a bit only if a write under it has read the key since. After a write that etcd refuses, a clean-up
//     clears it.
//   - A write needs no INTENT while another write of the same gateway and key is under way whose INTENT was answered,
//     under the same instance. After a write of unknown outcome each write has its own INTENT.
//   - A clean-up reads the ticket, then checks that no own write is under way, then reads session, bits and key from
//     etcd at once.
//   - The revision object is made again only with a revision that was read after the gateway learnt the shard's new
//     instance.
//   - When pushes or INTENTs have waited for too long, a gateway takes all keys out of the directory: it marks the
//     directory as closed, waits until every session has acknowledged that it reads no object any more, and deletes
//     the entries. A late request to enter a key fails at the count. LOAD stores etcd's current revision in the
//     object, and a hit's header is not below it.
package core
