// Package peer carries the calls of the gateways of a keyspace on disks to each other: [Peers] calls, and [Server]
// answers, by api/keyspace.proto.
//
// Gateways reach each other where clients reach them. The metadata of a call has the number and the secret of the
// keyspace, which the controllers give to those only who may be a gateway. It also has the name of the gateway that is
// called: at its address may be another one by now. A call of another keyspace, of a stranger or of another format is
// refused with [driver.ErrRefused].
//
// Contents of disks travel in pieces. A content is complete only if its stream ends without an error.
package peer
