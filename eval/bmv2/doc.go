// Package bmv2 runs the P4 programs on BMv2's psa_switch, behind the control socket of the SWX engine (p4/engine).
//
// # Parts
//
// The engine starts psa_switch in a network namespace of its own. Each port of the switch is a TAP device there, and the
// engine has its other end. The engine puts platform_h in front of each frame, as the SWX engine does, and replicates
// frames for the port PORT_AGAIN. Tables, registers and counters are reached through the Thrift service of BMv2.
//
// # Atomicity
//
// psa_switch runs one frame after the other through its ingress pipeline, in one thread. Requests of the control plane
// wait until no frame is in the switch, and no frame enters until they are done.
//
// # Flow control
//
// psa_switch loses frames if it gets more than it handles. The engine lets few frames in at a time: each frame that
// enters leaves by one port, because the programs send dropped frames to PORT_DROP.
package bmv2
