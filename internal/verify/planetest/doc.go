// Package planetest tests the control interface of data planes, with the same tests for each plane:
// configurations of many shards, leases, copies of shards under load, loads. Package conformance
// tests the handling of packets.
package planetest
