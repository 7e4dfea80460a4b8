// SPDX-License-Identifier: Apache-2.0
// A NetCRAQ node for switches of the Portable Switch Architecture. The rules are those of spec/protocol.md;
// spec/divergence.md lists the limits of a switch.
#include "target.p4"

#include "headers.p4"
#include "parser.p4"
#include "frame.p4"
#include "admit.p4"
#include "shard.p4"
#include "steps.p4"
#include "state.p4"
#include "send.p4"
#include "route.p4"

control Node(inout headers_t hdr, inout meta_t meta,
             in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    // Counts of messages by op << 6 | outcome.
    NQ_COUNTER(16384) outcomes;

    Frame() frame;
    Admit() admit;
    Shard() shard;
    State() state;
    Copy() copy;
    Compose() compose;
    Copies() copies;
    Wrap() wrap;
    Route() route;

    apply {
        hdr.state.setValid();
        hdr.state.answer = 0;
        meta.outcome = OPEN;
        meta.sends = SEND_NOTHING;
        meta.op = 0;
        meta.counted_op = 0;
        meta.flags = 0;
        meta.status = NQ_STATUS_OK;
        meta.located = 0;
        meta.epoch = 0;
        meta.state = STATE_NONE;
        meta.tail = 0;
        meta.role = 0;
        meta.full = 0;
        meta.clean = 0;
        meta.absent = 0;
        meta.permitted = 0;
        meta.has_entry = 0;
        meta.wants_object = 0;
        meta.applies = 0;
        meta.commits = 0;
        meta.records = 0;
        meta.hands = 0;
        meta.shows = 0;
        meta.counts_read = 0;
        meta.straight = 0;
        meta.copies = 0;
        meta.to_address = 0;
        meta.step = STEP_NONE;

        if (hdr.platform.port == NQ_PORT_AGAIN) {
            copy.apply(hdr, meta);
        } else {
            frame.apply(hdr, meta);
            if (meta.ours == 0) {
                if (hdr.ipv4.isValid() && hdr.ipv4.version_ihl == IPV4_PLAIN) {
                    if (hdr.ipv4.ttl > 1) {
                        meta.to_address = hdr.ipv4.destination;
                    }
                }
            } else {
                if (meta.outcome == OPEN) {
                    meta.client_address = hdr.ipv4.source;
                    meta.client_port = hdr.udp.source;
                    if (hdr.platform.port == NQ_PORT_CPU) {
                        meta.outcome = NQ_OUTCOME_MALFORMED;
                        if (hdr.chain.isValid() && hdr.base.flags != STEP_NONE) {
                            meta.outcome = OPEN;
                            meta.op = hdr.chain.client_op;
                            meta.step = hdr.base.flags;
                        }
                    } else {
                        admit.apply(hdr, meta);
                    }
                }
                if (meta.outcome == OPEN && meta.sends == SEND_NOTHING) {
                    if (meta.step == STEP_NONE) {
                        shard.apply(hdr, meta);
                    }
                    if (meta.outcome == OPEN) {
                        state.apply(hdr, meta);
                    }
                }
                if (meta.outcome != OPEN && meta.step == STEP_NONE) {
                    meta.count = (bit<32>) meta.counted_op;
                    meta.count = meta.count << 6;
                    meta.count = meta.count + (bit<32>) meta.outcome;
                    outcomes.count(meta.count);
                }
            }
        }

        if (meta.ours == 1 && meta.sends == SEND_NOTHING) {
            ostd.drop = false;
            ostd.egress_port = PORT_DROP;
            hdr.platform.setInvalid();
        } else if (meta.sends == SEND_TO_CPU) {
            ostd.drop = false;
            ostd.egress_port = PORT_CPU;
        } else {
            ostd.drop = false;
            if (meta.ours == 1) {
                compose.apply(hdr, meta);
            }
            if (meta.sends == SEND_COPIES) {
                copies.apply(hdr, meta);
                ostd.egress_port = PORT_AGAIN;
            } else {
                if (meta.ours == 1) {
                    wrap.apply(hdr, meta);
                }
                route.apply(hdr, meta, istd, ostd);
                if (ostd.egress_port != PORT_CPU) {
                    hdr.platform.setInvalid();
                }
            }
        }
    }
}

control NodeDeparser(NQ_DEPARSER) {
    apply {
        packet.emit(hdr.platform);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.base);
        packet.emit(hdr.version);
        packet.emit(hdr.chain);
        NQ_EMIT_VALUE
        packet.emit(hdr.rest);
    }
}

#include "exit.p4"
