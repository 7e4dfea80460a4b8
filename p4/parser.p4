// SPDX-License-Identifier: Apache-2.0
// Parses a frame into headers. A target without bounds checks in its parser gets the length of the frame, and
// the parser extracts no bytes beyond it.
#ifndef NQ_PARSER_P4
#define NQ_PARSER_P4

#include "headers.p4"

parser NodeParser(packet_in packet, out headers_t hdr, inout meta_t meta,
                  in psa_ingress_parser_input_metadata_t istd, in empty_t resubmit_meta, in empty_t recirculate_meta) {
    state start {
        packet.extract(hdr.platform);
        meta.message_bytes = 0;
        meta.value_bytes = 0;
        meta.sound = 0;
        meta.too_long = 0;
        transition select(hdr.platform.bytes < NQ_FRAME_BYTES) {
            true: accept;
            default: ethernet;
        }
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHER_TYPE_IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl) {
            IPV4_PLAIN: ipv4_plain;
            default: accept;
        }
    }
    state ipv4_plain {
        transition select(hdr.ipv4.protocol) {
            IPV4_UDP: udp;
            default: accept;
        }
    }
    // Bytes behind the IPv4 packet are padding.
    state udp {
        packet.extract(hdr.udp);
        meta.message_bytes = hdr.platform.bytes - NQ_ETHERNET_BYTES;
        transition select(hdr.ipv4.total_bytes > meta.message_bytes) {
            true: accept;
            default: inside;
        }
    }
    state inside {
        transition select(hdr.ipv4.total_bytes < NQ_BELOW_BYTES) {
            true: accept;
            default: covered;
        }
    }
    state covered {
        meta.message_bytes = hdr.ipv4.total_bytes - NQ_IPV4_BYTES;
        transition select(hdr.udp.bytes == meta.message_bytes) {
            true: message;
            default: accept;
        }
    }
    state message {
        meta.sound = 1;
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
    state short_value {
        meta.words = meta.value_bytes >> 3;
        meta.part4 = meta.value_bytes & 4;
        meta.part2 = meta.value_bytes & 2;
        meta.part1 = meta.value_bytes & 1;
        transition select(meta.words) {
            0: four;
            default: word0;
        }
    }
    state word0 {
        packet.extract(hdr.w0);
        transition select(meta.words) {
            1: four;
            default: word1;
        }
    }
    state word1 {
        packet.extract(hdr.w1);
        transition select(meta.words) {
            2: four;
            default: word2;
        }
    }
    state word2 {
        packet.extract(hdr.w2);
        transition select(meta.words) {
            3: four;
            default: word3;
        }
    }
    state word3 {
        packet.extract(hdr.w3);
        transition select(meta.words) {
            4: four;
            default: word4;
        }
    }
    state word4 {
        packet.extract(hdr.w4);
        transition select(meta.words) {
            5: four;
            default: word5;
        }
    }
    state word5 {
        packet.extract(hdr.w5);
        transition select(meta.words) {
            6: four;
            default: word6;
        }
    }
    state word6 {
        packet.extract(hdr.w6);
        transition select(meta.words) {
            7: four;
            default: word7;
        }
    }
    state word7 {
        packet.extract(hdr.w7);
        transition four;
    }
    state four {
        transition select(meta.part4) {
            0: two;
            default: take_four;
        }
    }
    state take_four {
        packet.extract(hdr.t4);
        transition two;
    }
    state two {
        transition select(meta.part2) {
            0: one;
            default: take_two;
        }
    }
    state take_two {
        packet.extract(hdr.t2);
        transition one;
    }
    state one {
        transition select(meta.part1) {
            0: accept;
            default: take_one;
        }
    }
    state take_one {
        packet.extract(hdr.t1);
        transition accept;
    }
}

#endif
