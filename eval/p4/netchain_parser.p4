// SPDX-License-Identifier: Apache-2.0
// Parses a message, if its lengths agree with the packet's.
#ifndef NC_PARSER_P4
#define NC_PARSER_P4

#include "netchain_headers.p4"

parser NodeParser(packet_in packet, out headers_t hdr, inout meta_t meta,
                  in psa_ingress_parser_input_metadata_t istd, in empty_t resubmit_meta, in empty_t recirculate_meta) {
#include "../../p4/network_states.p4"

    state message {
        meta.sound = 1;
        meta.whole = 0;
        meta.message_bytes = hdr.ipv4.total_bytes - NQ_BELOW_BYTES;
        transition select(meta.message_bytes < NC_HEAD_BYTES) {
            true: accept;
            default: head;
        }
    }
    state head {
        packet.extract(hdr.head);
        meta.value_bytes = hdr.head.first;
        transition select(hdr.head.op > NC_WIDE_OPS) {
            true: list_length;
            default: narrow;
        }
    }
    state narrow {
        meta.rest_bits = hdr.head.second & 0xffff;
        transition select(meta.rest_bits) {
            0: narrow_length;
            default: accept;
        }
    }
    state narrow_length {
        meta.rest_bits = hdr.head.second >> 16;
        meta.value_bytes = (bit<16>) meta.rest_bits;
        transition list_length;
    }
    state list_length {
        transition select(hdr.head.sc > NC_MAX_LIST) {
            true: accept;
            default: value_length;
        }
    }
    state value_length {
        transition select(meta.value_bytes > (bit<16>) NQ_MAX_VALUE_BYTES) {
            true: accept;
            default: lengths;
        }
    }
    state lengths {
        meta.list_bytes = (bit<16>) hdr.head.sc;
        meta.list_bytes = meta.list_bytes << 2;
        meta.words = NC_HEAD_BYTES + meta.value_bytes;
        meta.words = meta.words + meta.list_bytes;
        transition select(meta.words == meta.message_bytes) {
            true: value;
            default: accept;
        }
    }
    state value {
        meta.whole = 1;
        transition select(meta.value_bytes > NQ_CELL_BYTES) {
            true: long_value;
            default: short_value;
        }
    }
    state long_value {
        meta.rest_bits = (bit<32>) meta.value_bytes;
        meta.rest_bits = meta.rest_bits << 3;
        packet.extract(hdr.rest, meta.rest_bits);
        transition value_end;
    }
#include "../../p4/value_states.p4"

    state value_end {
        transition select(hdr.head.sc) {
            0: accept;
            default: address0;
        }
    }
    state address0 {
        packet.extract(hdr.a0);
        transition select(hdr.head.sc) {
            1: accept;
            default: address1;
        }
    }
    state address1 {
        packet.extract(hdr.a1);
        transition select(hdr.head.sc) {
            2: accept;
            default: address2;
        }
    }
    state address2 {
        packet.extract(hdr.a2);
        transition select(hdr.head.sc) {
            3: accept;
            default: address3;
        }
    }
    state address3 {
        packet.extract(hdr.a3);
        transition select(hdr.head.sc) {
            4: accept;
            default: address4;
        }
    }
    state address4 {
        packet.extract(hdr.a4);
        transition select(hdr.head.sc) {
            5: accept;
            default: address5;
        }
    }
    state address5 {
        packet.extract(hdr.a5);
        transition select(hdr.head.sc) {
            6: accept;
            default: address6;
        }
    }
    state address6 {
        packet.extract(hdr.a6);
        transition accept;
    }
}

#endif
