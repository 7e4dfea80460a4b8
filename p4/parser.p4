// SPDX-License-Identifier: Apache-2.0
// Parses a frame into headers.
#ifndef NQ_PARSER_P4
#define NQ_PARSER_P4

#include "headers.p4"

parser NodeParser(packet_in packet, out headers_t hdr, inout meta_t meta, NQ_PARSER_IN) {
#include "network_states.p4"

    state message {
        meta.sound = 1;
        meta.value_bytes = 0;
        meta.too_long = 0;
        meta.message_bytes = hdr.ipv4.total_bytes - NQ_BELOW_BYTES;
        transition select(meta.message_bytes < (bit<16>) NQ_BASE_BYTES) {
            true: accept;
            default: base;
        }
    }
    state base {
        packet.extract(hdr.base);
        meta.value_bytes = meta.message_bytes - (bit<16>) NQ_BASE_BYTES;
        transition select(hdr.base.op) {
            NQ_OP_PUT: chain_room;
            NQ_OP_DELETE: chain_room;
            NQ_OP_CAS: chain_room;
            NQ_OP_ADD: chain_room;
            NQ_OP_FORWARD: chain_room;
            NQ_OP_UPDATE: chain_room;
            NQ_OP_RELAY: chain_room;
            default: value;
        }
    }
    state chain_room {
        transition select(meta.message_bytes < (bit<16>) NQ_CHAIN_BYTES) {
            true: value;
            default: chain;
        }
    }
    state chain {
        packet.extract(hdr.chain);
        meta.value_bytes = meta.message_bytes - (bit<16>) NQ_CHAIN_BYTES;
        transition value;
    }
    state value {
        transition select(meta.value_bytes > NQ_CELL_BYTES) {
            true: long_value;
            default: short_value;
        }
    }
    // Removed from the frame, since no answer carries it.
    state long_value {
        meta.too_long = 1;
        meta.rest_bits = (bit<32>) meta.value_bytes;
        meta.rest_bits = meta.rest_bits << 3;
        packet.extract(hdr.rest, meta.rest_bits);
        transition accept;
    }
#include "value_states.p4"

    state value_end {
        transition accept;
    }
}

#endif
