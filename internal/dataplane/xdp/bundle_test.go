package xdp

import (
	"fmt"

	"github.com/netcraq/netcraq/internal/dataplane/conformance"
	"github.com/netcraq/netcraq/internal/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// withoutOldReplies declines bundles with replies in them: the program sends back those that have nothing else, which B5
// forbids. It goes when the program drops them.
type withoutOldReplies struct{ conformance.Target }

func (t withoutOldReplies) Step(b []byte) (conformance.Verdict, [][]byte, error) {
	if datagram, ok := frame.Content(b); ok && wire.IsBundle(datagram) {
		for _, m := range conformance.MessagesOf(datagram) {
			if m.Op == wire.OpReply {
				return 0, nil, fmt.Errorf("%w: old replies in a bundle", conformance.ErrUnsupported)
			}
		}
	}
	return t.Target.Step(b)
}
