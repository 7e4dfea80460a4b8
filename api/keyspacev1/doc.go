// Package keyspacev1 is generated from api/keyspace.proto, the API of the gateways of a keyspace on disks for each other.
package keyspacev1
