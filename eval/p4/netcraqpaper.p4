// SPDX-License-Identifier: Apache-2.0
// NetCRAQ as its papers describe it (eval/spec/baselines.md), for comparison with p4/netcraq.p4.
#include <core.p4>
#include <psa.p4>

#include "netcraqpaper_headers.p4"
#include "../../p4/target.p4"
#include "../../p4/ipv4.p4"
#include "send.p4"
#include "netcraqpaper_message.p4"
#include "netcraqpaper_objects.p4"

parser NodeParser(packet_in packet, out headers_t hdr, inout meta_t meta,
                  in psa_ingress_parser_input_metadata_t istd, in empty_t resubmit_meta, in empty_t recirculate_meta) {
#include "../../p4/network_states.p4"

    state message {
        meta.sound = 1;
        meta.message_bytes = hdr.ipv4.total_bytes - NQ_BELOW_BYTES;
        transition select(meta.message_bytes == NP_MESSAGE_BYTES) {
            true: take;
            default: accept;
        }
    }
    state take {
        packet.extract(hdr.message);
        transition accept;
    }
}

control Node(inout headers_t hdr, inout meta_t meta,
             in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    Counter<bit<64>, bit<32>>(16, PSA_CounterType_t.PACKETS) outcomes;

    Ipv4Sum() header_sum;
    Unpack() unpack;
    Objects() objects;
    Pack() pack;
    Send() send;

    action node(bit<32> next, bit<32> tail, bit<8> is_tail, bit<8> copies, bit<64> keys, bit<64> versions) {
        meta.ours = 1;
        meta.next = next;
        meta.tail = tail;
        meta.is_tail = is_tail;
        meta.copies = copies;
        hdr.state.keys = keys;
        hdr.state.versions = versions;
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
    action member(bit<32> address) {
        hdr.ipv4.destination = address;
        hdr.udp.destination = NP_PORT;
    }
    action client() {}
    // The multicast group: the destination of each copy of an acknowledgement but the first, which is the client's.
    table members {
        key = { hdr.platform.copy: exact; }
        actions = { member; client; }
        default_action = client();
        size = 16;
    }

    apply {
        hdr.state.setValid();
        meta.ours = 0;
        meta.answers = 0;
        meta.sends = SEND_NOTHING;
        if (hdr.platform.port == NQ_PORT_AGAIN) {
            members.apply();
            meta.sends = SEND_CHANGED;
        } else {
            meta.outcome = NP_TRANSIT;
            if (meta.sound == 1) {
                hdr.state.scratch = (bit<64>) hdr.ipv4.fragment;
                hdr.state.scratch = hdr.state.scratch & 0x3fff;
                if (hdr.state.scratch == 0) {
                    local.apply();
                }
            }
            if (meta.ours == 0) {
                meta.sends = SEND_TRANSIT;
            } else {
                meta.outcome = NP_MALFORMED;
                header_sum.apply(hdr);
                if (hdr.state.sum == 0xffff && hdr.message.isValid()) {
                    unpack.apply(hdr);
                    hdr.state.scratch = (bit<64>) hdr.message.third;
                    hdr.state.scratch = hdr.state.scratch & 0x3f;
                    if (hdr.state.scratch == 0 && hdr.state.op != NP_READ_REPLY) {
                        meta.outcome = NP_OUT_OF_RANGE;
                        if (hdr.state.key < hdr.state.keys) {
                            objects.apply(hdr, meta);
                            if (meta.answers == 1) {
                                pack.apply(hdr);
                            }
                        }
                    }
                }
            }
            outcomes.count(meta.outcome);
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
        packet.emit(hdr.message);
    }
}

#include "../../p4/exit.p4"
