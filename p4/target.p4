// SPDX-License-Identifier: Apache-2.0
// The differences between targets: those of the Portable Switch Architecture here, v1model's in v1model.p4.
#ifndef NQ_TARGET_P4
#define NQ_TARGET_P4

#include <core.p4>
#ifdef NQ_V1MODEL
#include "v1model.p4"
#else
#include <psa.p4>

#define NQ_PARSER_IN \
    in psa_ingress_parser_input_metadata_t istd, in empty_t resubmit_meta, in empty_t recirculate_meta
#define NQ_DEPARSER \
    packet_out packet, out empty_t clone_i2e_meta, out empty_t resubmit_meta, out empty_t normal_meta, \
    inout headers_t hdr, in meta_t meta, in psa_ingress_output_metadata_t istd
#define NQ_COUNTER(size) Counter<bit<64>, bit<32>>(size, PSA_CounterType_t.PACKETS)
#define NQ_READ(to, array, index) to = array.read(index)
#endif

// Ports of internal/node/dataplane/p4/engine: networks have the lower numbers.
#define NQ_PORT_AGAIN 12
// Copies the frame, and gives the copies to the program as new frames.
const PortId_t PORT_AGAIN = (PortId_t) NQ_PORT_AGAIN;
#define NQ_PORT_CPU 13
const PortId_t PORT_CPU = (PortId_t) NQ_PORT_CPU; // the control plane
const PortId_t PORT_HOST = (PortId_t) 14; // the host's own network stack
const PortId_t PORT_DROP = (PortId_t) 15; // no interface. SWX's own drop port frees frames as DPDK's buffers

#endif
