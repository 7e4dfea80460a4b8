// Package switchv1 is what a switch answers beside P4Runtime, generated from api/switch.proto by `make proto`.
package switchv1
