// SPDX-License-Identifier: Apache-2.0
// A0: is the frame for this node, and complete?
#ifndef NQ_FRAME_P4
#define NQ_FRAME_P4

#include "headers.p4"
#include "ipv4.p4"

control Frame(inout headers_t hdr, inout meta_t meta) {
    Ipv4Sum() header_sum;

    action node(bit<16> shard_mask, bit<16> cell_bytes, bit<32> slot_mask, bit<32> max_entries) {
        meta.ours = 1;
        meta.shard_mask = shard_mask;
        meta.cell_bytes = cell_bytes;
        meta.slot_mask = slot_mask;
        meta.max_entries = max_entries;
    }
    action other() {
        meta.ours = 0;
    }
    // The node's own address and port.
    table local {
        key = {
            hdr.ipv4.destination: exact;
            hdr.udp.destination: exact;
        }
        actions = { node; other; }
        default_action = other();
        size = 16;
    }

    apply {
        meta.ours = 0;
        if (hdr.udp.isValid()) {
            // More fragments follow, or this is one.
            hdr.state.scratch = (bit<64>) hdr.ipv4.fragment;
            hdr.state.scratch = hdr.state.scratch & 0x3fff;
            if (hdr.state.scratch == 0) {
                local.apply();
            }
        }
        if (meta.ours == 1) {
            header_sum.apply(hdr);
            if (hdr.state.sum != 0xffff) {
                meta.outcome = NQ_OUTCOME_BAD_CHECKSUM;
            } else if (meta.sound == 0) {
                meta.outcome = NQ_OUTCOME_TRUNCATED;
            }
        }
    }
}

#endif
