// Package v1model has the P4 program as p4c compiled it for v1model, which BMv2's simple_switch_grpc runs.
package v1model

import _ "embed"

// Program is the node: netcraq.p4, compiled.
//
//go:embed netcraq.json
var Program []byte

// Info is its P4Info, as text.
//
//go:embed netcraq.p4info.txtpb
var Info []byte
