// Package spec carries the parts of the specification that programs read.
package spec

import "embed"

// Vectors are the conformance cases, in the language that spec/vectors/README.md explains.
//
//go:embed vectors/*.txt
var Vectors embed.FS
