// Package snapshot writes what a cluster stores to a file while the cluster serves, and restores it.
//
// A snapshot holds, of every key, the value that one linearizable read during the backup could have returned. It is consistent
// per key, not across keys. Keys are 128-bit hashes, as nodes store them: their names are not in the file. What is restored is values:
// versions begin anew, tombstones and clients' sessions are left out.
//
// # The file
//
// All numbers are big-endian. After the magic number and the number of the format come the header, as JSON, blocks of objects, and a
// trailer with totals and the SHA-256 of everything before it. Header, blocks and trailer each end with their CRC32C. A file
// that was cut lacks its trailer; [Verify] reads all of it before a restore changes anything.
package snapshot
