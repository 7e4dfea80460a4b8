// Package record is the record of a keyspace on disks in the controllers' etcd: its format, what may follow it, and a
// client of the controllers that implements [driver.Record].
//
// Gateways do not use the controllers' etcd themselves. A controller reads and replaces the record for them, and
// refuses one that no recovery makes out of the present one.
package record
