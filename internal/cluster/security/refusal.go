package security

import "sync/atomic"

// Refusals counts refusals by reason.
type Refusals struct {
	Stranger atomic.Uint64 // no certificate, or one of another authority
	Expired  atomic.Uint64 // a certificate out of its time
	Role     atomic.Uint64 // a role that may not do this
	Revoked  atomic.Uint64 // a certificate that was revoked
}
