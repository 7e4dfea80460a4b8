// Package journal keeps what a keyspace's disk has: the writes of internal/keyspace/core in their order, in etcd's
// write-ahead log, and the state of some entry in a file beside it.
//
// Each write is one entry of the write-ahead log, and of an append each entry. So a log whose end is torn has all writes
// before some moment, which is what core expects of a disk.
//
// A content is a state with the entries behind it. The same encoding goes to other disks, and into the file with which
// the write-ahead log begins: a checkpoint replaces the content by an equal one whose state is newer, so that the log
// before it can be removed.
//
// Entries leave memory by [Journal.Forget] once the disk has them. The journal knows where each one is in its files, and
// [Journal.Content] reads it there.
//
// Checksums find what a disk has changed. Then the directory counts as lost: [SetAside] keeps its files, and the next
// [Open] draws another identity. A flipped bit inside a record that has a whole sector of zeros looks like a torn end.
package journal
