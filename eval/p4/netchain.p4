// SPDX-License-Identifier: Apache-2.0
// NetChain (eval/spec/baselines.md), for comparison with p4/netcraq.p4.
#include <core.p4>
#include <psa.p4>

#include "netchain_headers.p4"
#include "../../p4/target.p4"
#include "../../p4/ipv4.p4"
#include "send.p4"
#include "netchain_parser.p4"
#include "netchain_message.p4"
#include "netchain_cells.p4"
#include "netchain_rules.p4"

control Node(inout headers_t hdr, inout meta_t meta,
             in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    Counter<bit<64>, bit<32>>(16, PSA_CounterType_t.PACKETS) outcomes;

    Ipv4Sum() header_sum;
    Decode() decode;
    Cells() cells;
    Rules() rules;
    DropList() drop_list;
    Encode() encode;
    Send() send;

    action node(bit<32> self, bit<8> wide_ops, bit<32> seq_mask, bit<16> most_bytes, bit<32> group_mask) {
        meta.ours = 1;
        meta.self = self;
        hdr.state.wide_ops = wide_ops;
        hdr.state.mask = seq_mask;
        meta.most_bytes = most_bytes;
        meta.group_mask = group_mask;
    }
    action other() {
        meta.ours = 0;
    }
    // The port of the nodes.
    table local {
        key = { hdr.udp.destination: exact; }
        actions = { node; other; }
        default_action = other();
        size = 16;
    }
    action place(bit<32> index) {
        meta.found = 1;
        meta.object = index;
    }
    action none() {
        meta.found = 0;
        meta.object = 0;
    }
    // Places of keys, which the control plane assigns.
    table index {
        key = {
            hdr.head.key_hi: exact;
            hdr.head.key_lo: exact;
        }
        actions = { place; none; }
        default_action = none();
        size = NC_SLOTS;
    }

    apply {
        hdr.state.setValid();
        meta.ours = 0;
        meta.decoded = 0;
        meta.answers = 0;
        meta.popped = 0;
        meta.found = 0;
        meta.sends = SEND_TRANSIT;
        // A packet from PORT_AGAIN has the outcome of its first pass.
        meta.outcome = NC_TRANSIT;
        if (hdr.platform.port == NQ_PORT_AGAIN) {
            meta.outcome = hdr.platform.note;
        }
        if (meta.sound == 1) {
            hdr.state.scratch = (bit<64>) hdr.ipv4.fragment;
            hdr.state.scratch = hdr.state.scratch & 0x3fff;
            if (hdr.state.scratch == 0) {
                local.apply();
            }
        }
        if (meta.ours == 1) {
            header_sum.apply(hdr);
            if (hdr.state.sum == 0xffff) {
                decode.apply(hdr, meta);
            }
            if (meta.outcome != NC_TRANSIT) {
                meta.sends = SEND_CHANGED;
            }
            if (hdr.ipv4.destination == meta.self && (meta.outcome == NC_TRANSIT || meta.outcome == NC_REDIRECTED)) {
                meta.sends = SEND_NOTHING;
                if (meta.decoded == 1) {
                    index.apply();
                }
                cells.apply(hdr, meta);
            }
            if (meta.decoded == 1 && meta.answers == 0 && meta.sends != SEND_NOTHING) {
                rules.apply(hdr, meta);
            }
            if (meta.answers == 1) {
                drop_list.apply(hdr);
            }
            if (meta.sends != SEND_TRANSIT) {
                encode.apply(hdr, meta);
            }
        }
        if (meta.sends != SEND_AGAIN) {
            meta.count = (bit<32>) meta.outcome;
            outcomes.count(meta.count);
        }
        send.apply(hdr, meta, istd, ostd);
    }
}

control NodeDeparser(packet_out packet, out empty_t clone_i2e_meta, out empty_t resubmit_meta, out empty_t normal_meta,
                     inout headers_t hdr, in meta_t meta, in psa_ingress_output_metadata_t istd) {
    apply {
        packet.emit(hdr.platform);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.head);
        NQ_EMIT_VALUE
        packet.emit(hdr.rest);
        packet.emit(hdr.a0);
        packet.emit(hdr.a1);
        packet.emit(hdr.a2);
        packet.emit(hdr.a3);
        packet.emit(hdr.a4);
        packet.emit(hdr.a5);
        packet.emit(hdr.a6);
    }
}

#include "../../p4/exit.p4"
