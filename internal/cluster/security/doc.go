// Package security implements authentication and authorization: certificates with roles for controllers, nodes and users,
// mutual TLS with them, and the roles that each call of the APIs requires.
//
// A cluster has its own authority. A certificate has its owner (common name) and its role (organizational unit). Both ends
// of a connection check that the other's certificate comes from the cluster's authority, is valid now, and has a role for
// that end: only controllers and nodes may serve. Host names are not checked, so nodes may move: a holder of a node's key
// is a node.
package security
