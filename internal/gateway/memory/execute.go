package memory

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// errUnexecutable is the answer to a command on which etcd's store panics.
var errUnexecutable = status.Error(codes.Internal, "netcraq: the store cannot execute this command, so nothing was changed; "+
	"please report it, with the gateway's log")

// execute applies a command to this gateway's copy. No command stops a keyspace: if etcd's store panics, the copy is
// made again as it was before the command. The second try decides: it begins with the same state at every gateway, so
// if the store panics again, the command is refused at every gateway.
func (g *Gateway) execute(c *keyspace.Command) (keyspace.Answer, error) {
	for try := 1; ; try++ {
		a, err := g.space.Apply(c)
		if !errors.Is(err, keyspace.ErrBroken) {
			return a, err
		}
		g.o.Log.Error("a command cannot be executed: this gateway makes its copy of the keyspace again",
			"revision", g.space.Revision(), "error", err)
		rebuilt, err := g.space.Rebuild()
		if err != nil {
			return a, fmt.Errorf("%w: %w", errDamaged, err)
		}
		g.mu.Lock()
		g.space = rebuilt
		g.mu.Unlock()
		if try > 1 {
			return keyspace.Answer{}, errUnexecutable
		}
	}
}
