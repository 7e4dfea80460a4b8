package topology

import "slices"

// RoleIn names a node's place in a chain, head first: head, replica, tail, head and tail (of a chain of one), or
// nothing if it isn't in the chain.
func RoleIn(chain []string, node string) string {
	switch at := slices.Index(chain, node); {
	case at < 0:
		return ""
	case len(chain) == 1:
		return "head and tail"
	case at == 0:
		return "head"
	case at == len(chain)-1:
		return "tail"
	}
	return "replica"
}
