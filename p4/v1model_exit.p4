// SPDX-License-Identifier: Apache-2.0
// The pipelines of v1model around a program.
#ifndef NQ_V1MODEL_EXIT_P4
#define NQ_V1MODEL_EXIT_P4

// Of a tried frame's note in the answer, beside the port: never 0.
const bit<16> NOTE_TRIED = 0x100;

control Enter(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    @name(".Node") Node() node;
    psa_ingress_input_metadata_t istd;
    psa_ingress_output_metadata_t ostd;
    platform_h platform;

    apply {
        platform = hdr.platform;
        istd.ingress_port = (PortId_t) hdr.platform.port;
        ostd.drop = true;
        ostd.egress_port = PORT_DROP;
        node.apply(hdr, meta, istd, ostd);
        if (ostd.egress_port == PORT_AGAIN) {
            standard.mcast_grp = (bit<16>) hdr.platform.copies;
        } else if (platform.note != 0) {
            if (!hdr.platform.isValid()) {
                hdr.platform = platform;
            }
            hdr.platform.note = (bit<16>) ostd.egress_port;
            hdr.platform.note = hdr.platform.note | NOTE_TRIED;
            standard.egress_spec = NQ_PORT_CPU;
        } else if (ostd.egress_port == PORT_DROP || ostd.egress_port == PORT_HOST) {
            mark_to_drop(standard); // the host has its own copy
        } else {
            standard.egress_spec = ostd.egress_port;
        }
    }
}

// Each copy of a group comes in again, with its number.
control Exit(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.instance_type == TYPE_COPY) {
            hdr.platform.port = NQ_PORT_AGAIN;
            hdr.platform.copy = (bit<8>) standard.egress_rid;
            recirculate_preserving_field_list(0);
        }
    }
}

control NoSumRead(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control NoSumWritten(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

V1Switch(NodeParser(), NoSumRead(), Enter(), Exit(), NoSumWritten(), NodeDeparser()) main;

#endif
