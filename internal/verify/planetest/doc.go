// Package planetest tests what the control plane asks of a data plane, the same way for each: configurations of many shards,
// leases, copies of shards under load, loads. What a plane does with packets is for package conformance.
package planetest
