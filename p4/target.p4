// SPDX-License-Identifier: Apache-2.0
// The differences between targets of the Portable Switch Architecture.
#ifndef NQ_TARGET_P4
#define NQ_TARGET_P4

// Ports of internal/node/dataplane/p4/engine: networks have the lower numbers.
#define NQ_PORT_AGAIN 12
// Copies the frame, and gives the copies to the program as new frames.
const PortId_t PORT_AGAIN = (PortId_t) NQ_PORT_AGAIN;
#define NQ_PORT_CPU 13
const PortId_t PORT_CPU = (PortId_t) NQ_PORT_CPU; // the control plane
const PortId_t PORT_HOST = (PortId_t) 14; // the host's own network stack
const PortId_t PORT_DROP = (PortId_t) 15; // no interface. SWX's own drop port frees frames as DPDK's buffers

#endif
