// Package switchv1 has the messages that a switch takes and sends beside those of P4Runtime. `make proto` generates it
// from api/switch.proto.
package switchv1
