package p4

import "net/netip"

// Route is the way of a switch to a host.
type Route struct {
	To                  netip.Addr
	Port                int
	Source, Destination [6]byte // Ethernet addresses
}

// Insert gives the way to a program, for its own messages and for frames that it forwards. The names of
// the tables and actions begin with prefix.
func (r *Route) Insert(to *Request, prefix string) {
	for _, e := range r.entries(prefix) {
		to.Insert(e)
	}
}

// Delete takes the way from a program.
func (r *Route) Delete(to *Request, prefix string) {
	for _, e := range r.entries(prefix) {
		to.Delete(e)
	}
}

func (r *Route) entries(prefix string) [2]Entry {
	own := routeEntry(prefix, r.To, way{r.Port, r.Source, r.Destination})
	through := own
	through.Table, through.Action = prefix+tableTransit, prefix+actionOnward
	return [2]Entry{own, through}
}

// ChangeRoutes gives ways to the switch, and takes others from it. The switch forwards frames for hosts to which it has a
// way from here; other frames are left to the host's network stack.
func (n *Node) ChangeRoutes(add, remove []Route) error {
	var r Request
	for i := range add {
		add[i].Insert(&r, nodeControl)
	}
	for i := range remove {
		remove[i].Delete(&r, nodeControl)
	}
	return n.sw.Do(&r)
}
