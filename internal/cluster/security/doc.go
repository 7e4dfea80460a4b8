// Package security implements authentication and authorization: certificates with roles for controllers, nodes and users,
// mutual TLS with them, and the roles that each call of the APIs requires.
//
// A cluster has an authority of its own. A certificate names its owner (common name) and its role (organizational unit).
// Both ends of a connection check that the other's certificate comes from the cluster's authority, is in its time, and
// has a role that may be at that end: only a controller answers calls of the controllers' API, only a node those of the
// agents'. A server's address has to be among the names in its certificate, if there are any: a controller's has them, that
// of all nodes has none, so nodes may move, and who holds a node's key is a node. Certificates on the authority's list of
// revoked ones are refused, from the next call on.
package security
