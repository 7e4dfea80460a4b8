// Package controllerv1 is generated from api/controller.proto: what controllers do for nodes, clients, operators and each
// other.
package controllerv1
