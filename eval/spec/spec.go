// Package spec carries the cases for the papers' protocols, in the form that baselines.md explains.
package spec

import "embed"

// Baselines has a file of cases for each protocol.
//
//go:embed *.yaml
var Baselines embed.FS
