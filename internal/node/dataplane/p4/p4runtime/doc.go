// Package p4runtime serves a software switch to controllers that speak P4Runtime 1.5.
//
// [Server] owns the engine that runs the program; nobody else reaches it. What decides is pure: elections
// follows who is primary, state says what an update makes of the tables. The server calls both under one lock,
// so that requests take effect one after the other and the writes of a controller end before another becomes
// primary.
//
// The engine has exact tables, registers, counters of packets, and a CPU port. A pipeline that needs more is
// refused when it is set; requests about other entities are UNIMPLEMENTED.
package p4runtime
