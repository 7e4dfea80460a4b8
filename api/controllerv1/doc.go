// Package controllerv1 is generated from api/controller.proto, the API of controllers for nodes, clients, operators and
// other controllers.
package controllerv1
