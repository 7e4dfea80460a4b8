// Package snapshot writes the objects of a running cluster to a file, and restores them.
//
// For every key a snapshot has the value that a linearizable read during the backup could have returned. It is consistent
// for each key, not across keys. Keys are 128-bit hashes, as nodes store them, so their names are not in the file. Only
// values are restored: versions start again, and tombstones and clients' sessions are left out.
//
// # The file
//
// All numbers are big-endian. The file has the magic number, the number of the format, the header as JSON, blocks of
// objects, and a trailer with totals and the SHA-256 of everything before it. Header, blocks and trailer each end with
// their CRC32C. A truncated file lacks its trailer. [Verify] reads the whole file before a restore changes anything.
package snapshot
