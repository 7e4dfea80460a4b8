// Package security says who may do what: certificates with roles for controllers, nodes and people, mutual TLS made of
// them, and the roles that each call of the APIs wants.
//
// A cluster has an authority of its own. A certificate names its owner (common name) and its role (organizational unit).
// Both ends of a connection check that the other's certificate comes from the cluster's authority, is in its time, and
// has a role that may be at that end: only a controller or a node may serve. Host names play no part, so nodes may move;
// who holds a node's key is a node.
package security
