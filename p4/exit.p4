// SPDX-License-Identifier: Apache-2.0
// The egress pipeline, which does nothing, and the switch. The program has a parser, a control and a deparser for the
// ingress pipeline: NodeParser, Node and NodeDeparser.
#ifndef NQ_EXIT_P4
#define NQ_EXIT_P4

#ifdef NQ_V1MODEL
#include "v1model_exit.p4"
#else
parser ExitParser(packet_in packet, out headers_t hdr, inout meta_t meta, in psa_egress_parser_input_metadata_t istd,
                  in empty_t normal_meta, in empty_t clone_i2e_meta, in empty_t clone_e2e_meta) {
    state start {
        transition accept;
    }
}

control Exit(inout headers_t hdr, inout meta_t meta,
             in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply {}
}

control ExitDeparser(packet_out packet, out empty_t clone_e2e_meta, out empty_t recirculate_meta,
                     inout headers_t hdr, in meta_t meta, in psa_egress_output_metadata_t istd,
                     in psa_egress_deparser_input_metadata_t edstd) {
    apply {}
}

IngressPipeline(NodeParser(), Node(), NodeDeparser()) ingress;
EgressPipeline(ExitParser(), Exit(), ExitDeparser()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
#endif

#endif
