// SPDX-License-Identifier: Apache-2.0
// Reads the fields of a message, and writes them.
#ifndef NC_MESSAGE_P4
#define NC_MESSAGE_P4

#include "netchain_headers.p4"

control Decode(inout headers_t hdr, inout meta_t meta) {
    apply {
        meta.decoded = 0;
        if (meta.whole == 1) {
            hdr.state.op = hdr.head.op - hdr.state.wide_ops;
            if (hdr.state.op != 0) {
                if (hdr.state.op <= NC_NOT_FOUND) {
                    meta.decoded = 1;
                }
            }
        }
        if (meta.decoded == 1) {
            hdr.state.seq = hdr.head.second;
            if (hdr.state.wide_ops == 0) {
                hdr.state.seq = (bit<32>) hdr.head.first;
            }
        }
    }
}

// The length of the message, and its head without the key.
control Encode(inout headers_t hdr, inout meta_t meta) {
    apply {
        hdr.head.op = hdr.state.op + hdr.state.wide_ops;
        if (hdr.state.wide_ops == 0) {
            hdr.head.first = (bit<16>) hdr.state.seq;
            hdr.head.second = (bit<32>) meta.value_bytes;
            hdr.head.second = hdr.head.second << 16;
        } else {
            hdr.head.first = meta.value_bytes;
            hdr.head.second = hdr.state.seq;
        }
        meta.list_bytes = (bit<16>) hdr.head.sc;
        meta.list_bytes = meta.list_bytes << 2;
        meta.message_bytes = NC_HEAD_BYTES + meta.value_bytes;
        meta.message_bytes = meta.message_bytes + meta.list_bytes;
    }
}

// Takes the next address from the list and makes it the destination. A packet loses two at most.
control Pop(inout headers_t hdr, inout meta_t meta) {
    apply {
        if (meta.popped == 0) {
            hdr.ipv4.destination = hdr.a0.address;
            hdr.a0.setInvalid();
        } else {
            hdr.ipv4.destination = hdr.a1.address;
            hdr.a1.setInvalid();
        }
        meta.popped = meta.popped + 1;
        hdr.head.sc = hdr.head.sc - 1;
    }
}

// An answer has no list.
control DropList(inout headers_t hdr) {
    apply {
        hdr.head.sc = 0;
        hdr.a0.setInvalid();
        hdr.a1.setInvalid();
        hdr.a2.setInvalid();
        hdr.a3.setInvalid();
        hdr.a4.setInvalid();
        hdr.a5.setInvalid();
        hdr.a6.setInvalid();
    }
}

#endif
