// SPDX-License-Identifier: Apache-2.0
// The fields of a message, which begin inside of bytes.
#ifndef NP_MESSAGE_P4
#define NP_MESSAGE_P4

#include "netcraqpaper_headers.p4"

control Unpack(inout headers_t hdr) {
    apply {
        hdr.state.op = hdr.message.first >> 62;
        hdr.state.key = hdr.message.first >> 30;
        hdr.state.key = hdr.state.key & 0xffffffff;
        hdr.state.high = hdr.message.first << 34;
        hdr.state.scratch = hdr.message.second >> 30;
        hdr.state.high = hdr.state.high | hdr.state.scratch;
        hdr.state.low = hdr.message.second << 34;
        hdr.state.scratch = (bit<64>) hdr.message.third;
        hdr.state.scratch = hdr.state.scratch >> 6;
        hdr.state.low = hdr.state.low | hdr.state.scratch;
    }
}

control Pack(inout headers_t hdr) {
    apply {
        hdr.message.first = hdr.state.op << 62;
        hdr.state.scratch = hdr.state.key << 30;
        hdr.message.first = hdr.message.first | hdr.state.scratch;
        hdr.state.scratch = hdr.state.high >> 34;
        hdr.message.first = hdr.message.first | hdr.state.scratch;
        hdr.message.second = hdr.state.high << 30;
        hdr.state.scratch = hdr.state.low >> 34;
        hdr.message.second = hdr.message.second | hdr.state.scratch;
        hdr.state.scratch = hdr.state.low << 6;
        hdr.message.third = (bit<40>) hdr.state.scratch;
    }
}

#endif
