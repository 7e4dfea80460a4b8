// SPDX-License-Identifier: Apache-2.0
// What becomes of a packet: the last control of a node. Packets in transit go on unchanged.
#ifndef NQ_BASELINE_SEND_P4
#define NQ_BASELINE_SEND_P4

#include "address.p4"
#include "../../p4/route.p4"

const bit<8> SEND_NOTHING = 0;
const bit<8> SEND_TRANSIT = 1;
const bit<8> SEND_CHANGED = 2;
const bit<8> SEND_AGAIN = 3; // to PORT_AGAIN

control Send(inout headers_t hdr, inout meta_t meta,
             in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    Address() address;
    Route() route;

    apply {
        ostd.drop = false;
        ostd.egress_port = PORT_DROP;
        if (meta.sends == SEND_TRANSIT) {
            meta.ours = 0;
            meta.to_address = hdr.ipv4.destination;
            route.apply(hdr, meta, istd, ostd);
        } else if (meta.sends != SEND_NOTHING) {
            meta.ours = 1;
            address.apply(hdr, meta);
            meta.straight = meta.answers;
            if (hdr.platform.port == NQ_PORT_AGAIN) {
                meta.straight = 0;
            }
            route.apply(hdr, meta, istd, ostd);
        }
        if (meta.sends == SEND_AGAIN) {
            ostd.egress_port = PORT_AGAIN;
        } else if (ostd.egress_port != PORT_CPU) {
            hdr.platform.setInvalid();
        }
    }
}

#endif
