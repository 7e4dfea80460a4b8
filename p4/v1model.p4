// SPDX-License-Identifier: Apache-2.0
// The target v1model, for BMv2's simple_switch_grpc: names of the Portable Switch Architecture that the programs use.
#ifndef NQ_V1MODEL_P4
#define NQ_V1MODEL_P4

#include <v1model.p4>

struct psa_ingress_input_metadata_t { PortId_t ingress_port; }
struct psa_ingress_output_metadata_t {
    PortId_t egress_port;
    bool drop;
}

#define Register register
#define NQ_PARSER_IN inout standard_metadata_t istd
#define NQ_DEPARSER packet_out packet, in headers_t hdr
#define NQ_COUNTER(size) counter<bit<32>>(size, CounterType.packets)
#define NQ_READ(to, array, index) array.read(to, index)

// In front of a frame that the control plane hands in.
header packet_out_h {
    bit<64> now;  // 0: the switch's clock
    bit<16> note; // not 0: each frame that leaves because of this one goes to the CPU port, which is told its port
    bit<8> port;  // that the frame comes in by
}

const bit<16> PACKET_OUT_BYTES = 11;
const bit<16> PLATFORM_BYTES = 16;
const bit<32> TYPE_COPY = 5;  // of a multicast group
const bit<32> TYPE_AGAIN = 4; // recirculated

#endif
