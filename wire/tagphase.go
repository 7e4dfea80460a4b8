package wire

// Tags is how far the messages of a cluster carry tags (T6 of spec/protocol.md). A cluster goes from one phase to the
// next or to the one before, and two parties that are one phase apart understand each other.
type Tags uint8

// The phases.
const (
	TagsOff      Tags = iota // no message has a tag; one that has is not understood
	TagsAccepted             // messages are sent without and taken with and without
	TagsSent                 // messages are sent with and taken with and without
	TagsRequired             // messages are sent and taken with tags only
)

// Valid reports whether this is one of the phases.
func (t Tags) Valid() bool { return t <= TagsRequired }

// Sends reports whether messages are sent with tags.
func (t Tags) Sends() bool { return t >= TagsSent }

// Toward is the next phase on the way to tags or to none.
func (t Tags) Toward(on bool) Tags {
	switch {
	case on && t < TagsRequired:
		return t + 1
	case !on && t > TagsOff:
		return t - 1
	}
	return t
}

// Sending is the keyring to send with; nil: without tags. Where tags are sent and there are no keys yet, a node sends
// nothing.
func (t Tags) Sending(k *Keyring) *Keyring {
	switch {
	case !t.Sends():
		return nil
	case k == nil:
		return new(Keyring)
	}
	return k
}

// Asking is [Tags.Sending] for a client: without keys it sends no tag as long as none is required.
func (t Tags) Asking(k *Keyring) *Keyring {
	if k == nil && t != TagsRequired {
		return nil
	}
	return t.Sending(k)
}

// Open returns the message of a datagram that a node received, and whether it may take it.
func (t Tags) Open(k *Keyring, datagram []byte, e Ends) (message []byte, ok bool) {
	switch {
	case t == TagsOff: // the mark is an unknown version
		return datagram, true
	case !Tagged(datagram):
		return datagram, t != TagsRequired
	case k == nil:
		k = new(Keyring)
	}
	return k.Open(datagram, e)
}

// OpenAnswer is [Tags.Open] for a client. Nodes may be a phase ahead of what it knows: where an answer without a tag
// would do, it takes one with a tag that it cannot check.
func (t Tags) OpenAnswer(k *Keyring, datagram []byte, e Ends) (message []byte, ok bool) {
	if Tagged(datagram) && (t == TagsOff || k == nil && t != TagsRequired) {
		message, _ = Untag(datagram)
		return message, message != nil
	}
	return t.Open(k, datagram, e)
}

// String names the phase for people.
func (t Tags) String() string {
	switch t {
	case TagsOff:
		return "off"
	case TagsAccepted:
		return "accepted"
	case TagsSent:
		return "sent"
	case TagsRequired:
		return "required"
	}
	return "unknown"
}
