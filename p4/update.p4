// SPDX-License-Identifier: Apache-2.0
// W6 to W9: the messages between members of a chain.
#ifndef NQ_UPDATE_P4
#define NQ_UPDATE_P4

#include "headers.p4"

// W6: apply iff newer, record iff newer, send on in every case.
control Update(inout headers_t hdr, inout meta_t meta) {
    apply {
        if (meta.has_entry == 0 || (meta.found == 0 && meta.full == 1)) {
            meta.outcome = NQ_OUTCOME_FULL;
        } else {
            meta.wants_object = 1;
            meta.outcome = NQ_OUTCOME_STALE;
            meta.status = NQ_STATUS_OK;
            meta.hands = 1;
            hdr.state.answer = hdr.chain.version;
            if (hdr.chain.version > hdr.state.version) {
                meta.applies = 1;
                meta.outcome = NQ_OUTCOME_APPLIED;
                if (meta.tail == 1) {
                    meta.outcome = NQ_OUTCOME_COMMITTED;
                }
            }
            if (hdr.chain.seq > hdr.state.seq) {
                meta.records = 1;
                hdr.state.result = 0;
                if (meta.op == NQ_OP_ADD) {
                    hdr.state.result = hdr.w0.word;
                }
            }
        }
    }
}

// W8, for a single ACK and for one that travels up the chain as a RELAY; W9 for a PROBE.
control Acknowledge(inout headers_t hdr, inout meta_t meta) {
    apply {
        if (hdr.base.op == NQ_OP_PROBE) {
            if (meta.tail == 0) {
                meta.outcome = NQ_OUTCOME_MALFORMED;
            } else {
                meta.outcome = NQ_OUTCOME_PROBED;
                meta.commits = 1;
                hdr.state.mark = hdr.state.version;
                hdr.state.answer = hdr.state.version;
                if (hdr.state.committed > hdr.state.version) {
                    hdr.state.answer = hdr.state.committed;
                }
                meta.sends = SEND_ACK;
                meta.to_address = hdr.ipv4.source;
                meta.to_port = hdr.udp.source;
            }
        } else {
            hdr.state.mark = hdr.w0.word;
            if (hdr.base.op == NQ_OP_RELAY) {
                hdr.state.mark = hdr.chain.version;
            }
            if (meta.found == 0) {
                meta.outcome = NQ_OUTCOME_AHEAD;
            } else if (hdr.state.mark > hdr.state.version) {
                meta.outcome = NQ_OUTCOME_AHEAD;
            } else {
                meta.outcome = NQ_OUTCOME_STALE;
                if (hdr.state.mark > hdr.state.committed) {
                    meta.outcome = NQ_OUTCOME_ACKED;
                    meta.commits = 1;
                }
                if (hdr.base.op == NQ_OP_RELAY) {
                    meta.sends = SEND_RELAY;
                    hdr.state.answer = hdr.chain.version;
                    if (meta.head == 1) {
                        meta.sends = SEND_REPLY;
                        meta.status = NQ_STATUS_OK;
                    }
                }
            }
        }
    }
}

#endif
