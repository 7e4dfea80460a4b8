package security

import (
	"fmt"
	"slices"
)

// Role is the role of a certificate's owner in the cluster.
type Role string

// The roles.
const (
	Controller Role = "controller"
	Node       Role = "node"
	Admin      Role = "admin"    // everything that people may do
	Operator   Role = "operator" // runs the cluster without losing data: drain, move, backup
	Reader     Role = "reader"   // look, change nothing
)

// Roles are all roles, as [Make] makes certificates for them.
var Roles = []Role{Controller, Node, Admin, Operator, Reader}

// serves reports whether the role may be at the serving end of a connection.
func (r Role) serves() bool { return r == Controller || r == Node }

// Writes reports whether the role may write in the data plane.
func (r Role) Writes() bool { return r == Node || r == Admin || r == Operator }

func parseRole(units []string) (Role, error) {
	if len(units) == 1 && slices.Contains(Roles, Role(units[0])) {
		return Role(units[0]), nil
	}
	return "", fmt.Errorf("the certificate's organizational unit %q is no role", units)
}
