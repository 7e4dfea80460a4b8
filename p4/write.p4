// SPDX-License-Identifier: Apache-2.0
// W1 to W5 and W11: a client's write at the head.
#ifndef NQ_WRITE_P4
#define NQ_WRITE_P4

#include "headers.p4"

// W1: only the head orders.
control Accept(inout headers_t hdr, inout meta_t meta) {
    apply {
        if (meta.value_bytes > meta.cell_bytes) {
            meta.outcome = NQ_OUTCOME_TOO_LARGE;
            meta.sends = SEND_REPLY;
            meta.status = NQ_STATUS_TOO_LARGE;
        } else if (hdr.base.epoch != meta.epoch) {
            meta.outcome = NQ_OUTCOME_NOT_MINE;
            meta.sends = SEND_REPLY;
            meta.status = NQ_STATUS_NOT_MINE;
        } else if (meta.state != STATE_ACTIVE) {
            meta.outcome = NQ_OUTCOME_BUSY;
            meta.sends = SEND_REPLY;
            meta.status = NQ_STATUS_BUSY;
        } else if (meta.head == 0) {
            meta.outcome = NQ_OUTCOME_FORWARDED;
            meta.sends = SEND_FORWARD;
            meta.to_address = meta.head_address;
            meta.to_port = meta.head_port;
        }
    }
}

// W4: a refusal is recorded in the session, and shows state only under a lease. Its status is in meta.status.
control Refuse(inout headers_t hdr, inout meta_t meta) {
    apply {
        meta.sends = SEND_REPLY;
        if (meta.permitted == 0) {
            meta.outcome = NQ_OUTCOME_NO_LEASE;
            meta.status = NQ_STATUS_BUSY;
        } else {
            meta.records = 1;
            hdr.state.answer = hdr.state.version;
            if (meta.status == NQ_STATUS_CAS_FAILED && meta.absent == 0) {
                meta.shows = 1;
            }
        }
    }
}

// W2 for an equal seq: the same version and result as before.
control Repeat(inout headers_t hdr, inout meta_t meta) {
    apply {
        meta.outcome = NQ_OUTCOME_REPEATED;
        hdr.state.answer = hdr.state.last;
        meta.status = hdr.state.noted;
        if (hdr.state.key_lo != hdr.base.key_lo || hdr.state.noted_op != meta.op ||
            (meta.found == 0 && meta.status == NQ_STATUS_OK)) {
            meta.outcome = NQ_OUTCOME_BAD_REQUEST;
            meta.status = NQ_STATUS_BAD_REQUEST;
            hdr.state.answer = 0;
            meta.sends = SEND_REPLY;
        } else if (meta.status != NQ_STATUS_OK) {
            meta.sends = SEND_REPLY;
            if (meta.permitted == 0) {
                meta.outcome = NQ_OUTCOME_NO_LEASE;
                meta.status = NQ_STATUS_BUSY;
                hdr.state.answer = 0;
            } else if (meta.status == NQ_STATUS_FULL) {
                meta.flags = NQ_FLAG_NO_VALUE;
            } else if (meta.status == NQ_STATUS_CAS_FAILED && meta.found == 1) {
                if (hdr.state.version != hdr.state.last) {
                    meta.flags = NQ_FLAG_NO_VALUE;
                } else if (meta.absent == 0) {
                    meta.shows = 1;
                }
            }
        } else {
            meta.hands = 1;
            if (hdr.state.version == hdr.state.last) {
                meta.shows = 1;
            } else if (meta.op == NQ_OP_ADD) {
                hdr.w0.setValid();
                hdr.w0.word = hdr.state.result;
                meta.value_bytes = 8;
            }
        }
    }
}

// W3 to W5: a new write.
control Order(inout headers_t hdr, inout meta_t meta) {
    Refuse() refuse;

    apply {
        if (meta.op == NQ_OP_CAS || meta.op == NQ_OP_ADD) {
            if (meta.clean == 0) {
                meta.outcome = NQ_OUTCOME_BUSY;
                meta.sends = SEND_REPLY;
                meta.status = NQ_STATUS_BUSY;
            } else if (meta.op == NQ_OP_CAS) {
                if (hdr.chain.operand == hdr.state.version || (hdr.chain.operand == 0 && meta.absent == 1)) {
                    meta.status = NQ_STATUS_OK;
                } else {
                    meta.outcome = NQ_OUTCOME_REFUSED;
                    meta.status = NQ_STATUS_CAS_FAILED;
                }
            } else if (meta.absent == 0) {
                if (hdr.state.bytes != 8) {
                    meta.outcome = NQ_OUTCOME_REFUSED;
                    meta.status = NQ_STATUS_BAD_REQUEST;
                }
            }
        }
        if (meta.outcome == OPEN && meta.found == 0) {
            meta.wants_object = 1;
            if (meta.full == 1) {
                meta.outcome = NQ_OUTCOME_FULL;
                meta.status = NQ_STATUS_FULL;
            }
        }
        if (meta.outcome == NQ_OUTCOME_REFUSED || meta.outcome == NQ_OUTCOME_FULL) {
            refuse.apply(hdr, meta);
            if (meta.status == NQ_STATUS_FULL) {
                meta.flags = NQ_FLAG_NO_VALUE; // no copy of the write will take effect
            }
        } else if (meta.outcome == OPEN) {
            meta.outcome = NQ_OUTCOME_ORDERED;
            hdr.state.answer = hdr.state.version + 1;
            meta.status = NQ_STATUS_OK;
            meta.applies = 1;
            meta.records = 1;
            meta.hands = 1;
            if (meta.op == NQ_OP_ADD) {
                hdr.w0.setValid();
                hdr.w0.word = hdr.chain.operand;
                if (meta.absent == 0) {
                    hdr.w0.word = hdr.w0.word + hdr.state.first;
                }
                hdr.state.result = hdr.w0.word;
                meta.value_bytes = 8;
            } else {
                hdr.state.result = 0;
            }
        }
    }
}

#endif
