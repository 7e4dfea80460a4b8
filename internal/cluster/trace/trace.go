// Package trace names the stations of a request: the nodes that it passed, their roles, and what each did.
package trace

import (
	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/wire"
)

// Station is a place on a request's path.
type Station struct {
	Name   string `json:"name"`
	Role   string `json:"role,omitempty"`
	Action string `json:"action,omitempty"`
}

// caller is where a path begins and ends.
var caller = Station{Name: "client"}

// Path returns the path of a request and its answer. err is the operation's error.
func Path(op wire.Op, r client.Result, where client.Location, err error) []Station {
	if op.IsWrite() {
		return ofWrite(r, where, err)
	}
	return ofRead(r, where, err)
}

// ofRead returns the path of a read: to the node asked, to the tail if that node cannot answer, and back.
func ofRead(r client.Result, where client.Location, err error) []Station {
	path := []Station{caller}
	if r.Asked != r.Node {
		path = append(path, Station{r.Asked, topology.RoleIn(where.Chain, r.Asked), "dirty, or without a lease"})
	}
	return append(path, Station{r.Node, topology.RoleIn(where.Chain, r.Node), State(wire.OpRead, r, err)}, caller)
}

// ofWrite returns the path of a write: down the whole chain and back from the tail. If the tail cannot clone its ACK,
// the ACK goes up the chain and the head answers. A refused write ends at the head.
func ofWrite(r client.Result, where client.Location, err error) []Station {
	chain := where.Chain
	at := func(i int, what string) Station { return Station{chain[i], topology.RoleIn(chain, chain[i]), what} }
	path := []Station{caller}
	if r.Asked != chain[0] {
		path = append(path, Station{r.Asked, topology.RoleIn(chain, r.Asked), "passed on to the head"})
	}
	if err != nil {
		return append(path, at(0, "refused"), caller)
	}
	for i := range len(chain) - 1 {
		path = append(path, at(i, [...]string{"ordered", "applied"}[min(i, 1)]))
	}
	path = append(path, at(len(chain)-1, "committed"))
	if r.Node == chain[0] {
		for i := len(chain) - 2; i >= 0; i-- {
			path = append(path, at(i, "acknowledged"))
		}
	}
	return append(path, caller)
}

// State describes the state from which the answer was made.
func State(op wire.Op, r client.Result, err error) string {
	switch {
	case op.IsWrite() && err != nil:
		return "refused"
	case op.IsWrite():
		return "committed"
	case r.Dirty:
		return "dirty copy"
	case err != nil && r.Version == 0:
		return "never written"
	case err != nil:
		return "deleted"
	case r.Asked != r.Node:
		return "committed copy"
	}
	return "clean copy"
}
