// SPDX-License-Identifier: Apache-2.0
// A1 to A8: admits the message, or sets the outcome that drops or refuses it.
#ifndef NQ_ADMIT_P4
#define NQ_ADMIT_P4

#include "headers.p4"
#include "sum.p4"

// A8 for messages of clients.
control AdmitClient(inout headers_t hdr, inout meta_t meta) {
    apply {
        // 1: the format is broken.
        hdr.state.scratch = 0;
        if (hdr.base.op == NQ_OP_READ) {
            if (meta.message_bytes != (bit<16>) NQ_BASE_BYTES) {
                hdr.state.scratch = 1;
            }
            if (hdr.base.flags != NQ_FLAG_BOUNDED) {
                if (hdr.base.flags != 0) {
                    if (hdr.base.flags != NQ_FLAG_ANY) {
                        hdr.state.scratch = 1;
                    }
                }
                if (hdr.base.detail != 0) {
                    hdr.state.scratch = 1;
                }
            }
        } else if (!hdr.chain.isValid()) {
            hdr.state.scratch = 1;
        } else {
            if (hdr.base.flags != 0) { hdr.state.scratch = 1; }
            if (hdr.base.detail != 0) { hdr.state.scratch = 1; }
            if (hdr.chain.session == 0) { hdr.state.scratch = 1; }
            if (hdr.chain.seq == 0) { hdr.state.scratch = 1; }
            if (hdr.chain.version != 0) { hdr.state.scratch = 1; }
            if (hdr.chain.client_hi != 0) { hdr.state.scratch = 1; }
            if (hdr.chain.client_lo_0 != 0) { hdr.state.scratch = 1; }
            if (hdr.chain.client_lo_1 != 0) { hdr.state.scratch = 1; }
            if (hdr.chain.client_port != 0) { hdr.state.scratch = 1; }
            if (hdr.chain.client_op != 0) { hdr.state.scratch = 1; }
            if (hdr.chain.reserved_8 != 0) { hdr.state.scratch = 1; }
            if (hdr.chain.reserved_32 != 0) { hdr.state.scratch = 1; }
            if (hdr.base.op == NQ_OP_PUT) {
                if (hdr.chain.operand != 0) { hdr.state.scratch = 1; }
            }
            if (hdr.base.op == NQ_OP_DELETE) {
                if (hdr.chain.operand != 0) { hdr.state.scratch = 1; }
                if (meta.value_bytes != 0) { hdr.state.scratch = 1; }
            }
            if (hdr.base.op == NQ_OP_ADD) {
                if (meta.value_bytes != 0) { hdr.state.scratch = 1; }
            }
        }
        if (hdr.state.scratch == 1) {
            meta.outcome = NQ_OUTCOME_BAD_REQUEST;
        }
    }
}

// A8 for FORWARD, UPDATE and RELAY, which carry a client's message.
control AdmitPassed(inout headers_t hdr, inout meta_t meta) {
    apply {
        hdr.state.scratch = 0;
        if (!hdr.chain.isValid()) {
            hdr.state.scratch = 1;
        } else {
            meta.op = hdr.chain.client_op;
            meta.client_address = hdr.chain.client_lo_1;
            meta.client_port = hdr.chain.client_port;
            if (hdr.chain.client_lo_0 != 0xffff) { hdr.state.scratch = 1; }
            if (hdr.base.flags != 0) { hdr.state.scratch = 1; }
            if (hdr.base.detail != 0) { hdr.state.scratch = 1; }
            if (hdr.chain.client_hi != 0) { hdr.state.scratch = 1; }
            if (hdr.chain.client_port == 0) { hdr.state.scratch = 1; }
            if (hdr.chain.reserved_8 != 0) { hdr.state.scratch = 1; }
            if (hdr.chain.reserved_32 != 0) { hdr.state.scratch = 1; }
            if (meta.op == NQ_OP_READ) {
                if (hdr.base.op != NQ_OP_FORWARD) { hdr.state.scratch = 1; }
                if (meta.value_bytes != 0) { hdr.state.scratch = 1; }
                if (hdr.chain.session != 0) { hdr.state.scratch = 1; }
                if (hdr.chain.seq != 0) { hdr.state.scratch = 1; }
                if (hdr.chain.operand != 0) { hdr.state.scratch = 1; }
                if (hdr.chain.version != 0) { hdr.state.scratch = 1; }
            } else {
                if (hdr.chain.session == 0) { hdr.state.scratch = 1; }
                if (hdr.chain.seq == 0) { hdr.state.scratch = 1; }
                if (hdr.base.op == NQ_OP_FORWARD) {
                    if (hdr.chain.version != 0) { hdr.state.scratch = 1; }
                } else {
                    if (hdr.chain.version == 0) { hdr.state.scratch = 1; }
                }
                // The length of the value, where the op determines it.
                if (meta.op == NQ_OP_ADD) {
                    if (hdr.base.op == NQ_OP_FORWARD) {
                        if (meta.value_bytes != 0) { hdr.state.scratch = 1; }
                    } else {
                        if (meta.value_bytes != 8) { hdr.state.scratch = 1; }
                    }
                } else if (meta.op == NQ_OP_DELETE) {
                    if (meta.value_bytes != 0) { hdr.state.scratch = 1; }
                } else if (meta.op == NQ_OP_PUT || meta.op == NQ_OP_CAS) {
                    if (hdr.base.op == NQ_OP_RELAY) {
                        if (meta.value_bytes != 0) { hdr.state.scratch = 1; }
                    }
                } else {
                    hdr.state.scratch = 1;
                }
            }
        }
        if (hdr.state.scratch == 1) {
            meta.outcome = NQ_OUTCOME_MALFORMED;
        }
    }
}

control Admit(inout headers_t hdr, inout meta_t meta) {
    MessageSum() message_sum;
    AdmitClient() client;
    AdmitPassed() passed;

    apply {
        meta.op = 0;
        if (!hdr.base.isValid()) {
            meta.outcome = NQ_OUTCOME_TRUNCATED;
        } else if (hdr.base.magic != (bit<16>) NQ_MAGIC) {
            meta.outcome = NQ_OUTCOME_BAD_MAGIC;
        } else if (hdr.base.version != (bit<8>) NQ_WIRE_VERSION) {
            meta.outcome = NQ_OUTCOME_BAD_VERSION;
        } else if (hdr.base.op == NQ_OP_HEARTBEAT) {
            meta.sends = SEND_TO_CPU;
            hdr.platform.reason = CPU_HEARTBEAT;
        } else if (hdr.base.op == NQ_OP_BUNDLE) {
            meta.counted_op = NQ_OP_BUNDLE;
            meta.outcome = NQ_OUTCOME_MALFORMED;
        } else if (meta.message_bytes > (bit<16>) NQ_MAX_MESSAGE_BYTES) {
            meta.outcome = NQ_OUTCOME_TOO_LARGE;
        } else {
            if (meta.too_long == 0) {
                message_sum.apply(hdr);
                if (hdr.state.sum != 0xffff) {
                    meta.outcome = NQ_OUTCOME_BAD_CHECKSUM;
                }
            }
            if (meta.outcome == OPEN) {
                meta.op = hdr.base.op;
                meta.counted_op = hdr.base.op;
                if (hdr.base.hops >= (bit<8>) NQ_MAX_HOPS) {
                    meta.outcome = NQ_OUTCOME_HOP_LIMIT;
                } else if (meta.op == NQ_OP_READ || meta.op == NQ_OP_PUT || meta.op == NQ_OP_DELETE ||
                           meta.op == NQ_OP_CAS || meta.op == NQ_OP_ADD) {
                    client.apply(hdr, meta);
                } else if (meta.op == NQ_OP_FORWARD || meta.op == NQ_OP_UPDATE || meta.op == NQ_OP_RELAY) {
                    passed.apply(hdr, meta);
                } else if (meta.op == NQ_OP_ACK || meta.op == NQ_OP_PROBE) {
                    if (meta.message_bytes != (bit<16>) NQ_VERSION_BYTES || hdr.base.flags != 0 || hdr.base.detail != 0) {
                        meta.outcome = NQ_OUTCOME_MALFORMED;
                    }
                } else if (meta.op == NQ_OP_REPLY) {
                    meta.outcome = NQ_OUTCOME_MALFORMED;
                } else {
                    meta.outcome = NQ_OUTCOME_BAD_REQUEST;
                }
            }
        }
        if (meta.outcome == NQ_OUTCOME_BAD_REQUEST) {
            meta.sends = SEND_REPLY;
            meta.status = NQ_STATUS_BAD_REQUEST;
        }
    }
}

#endif
