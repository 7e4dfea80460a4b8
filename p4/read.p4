// SPDX-License-Identifier: Apache-2.0
// R1 to R5, for a client's READ and for one that another node forwarded.
#ifndef NQ_READ_P4
#define NQ_READ_P4

#include "headers.p4"

control Read(inout headers_t hdr, inout meta_t meta) {
    action answer() {
        meta.counts_read = 1;
        meta.sends = SEND_REPLY;
        hdr.state.answer = hdr.state.version;
    }

    apply {
        // R5. The bound is in ms: 1,000,000 ns are 2^19+2^18+2^17+2^16+2^14+2^9+2^6.
        if (hdr.base.flags == NQ_FLAG_ANY) {
            meta.outcome = NQ_OUTCOME_ANSWERED_RELAXED;
        } else if (hdr.base.flags == NQ_FLAG_BOUNDED && hdr.state.lease != 0) {
            hdr.state.scratch = (bit<64>) hdr.base.detail;
            hdr.state.scratch = hdr.state.scratch << 19;
            hdr.state.sum = hdr.state.scratch;
            hdr.state.scratch = hdr.state.scratch >> 1;
            hdr.state.sum = hdr.state.sum + hdr.state.scratch;
            hdr.state.scratch = hdr.state.scratch >> 1;
            hdr.state.sum = hdr.state.sum + hdr.state.scratch;
            hdr.state.scratch = hdr.state.scratch >> 1;
            hdr.state.sum = hdr.state.sum + hdr.state.scratch;
            hdr.state.scratch = hdr.state.scratch >> 2;
            hdr.state.sum = hdr.state.sum + hdr.state.scratch;
            hdr.state.scratch = hdr.state.scratch >> 5;
            hdr.state.sum = hdr.state.sum + hdr.state.scratch;
            hdr.state.scratch = hdr.state.scratch >> 3;
            hdr.state.sum = hdr.state.sum + hdr.state.scratch;
            // A lease without end has no bound either.
            hdr.state.scratch = hdr.state.lease + hdr.state.sum;
            if (hdr.state.scratch < hdr.state.lease) {
                meta.outcome = NQ_OUTCOME_ANSWERED_RELAXED;
            } else if (hdr.platform.now < hdr.state.scratch) {
                meta.outcome = NQ_OUTCOME_ANSWERED_RELAXED;
            }
        }
        if (meta.outcome == OPEN) {
            if (meta.permitted == 1 && meta.clean == 1) {
                meta.outcome = NQ_OUTCOME_ANSWERED_CLEAN;
                if (hdr.base.op == NQ_OP_FORWARD) {
                    meta.outcome = NQ_OUTCOME_ANSWERED_TAIL;
                }
            } else if (meta.tail == 1) {
                meta.outcome = NQ_OUTCOME_NO_LEASE;
                if (meta.permitted == 1) {
                    // A frozen tail may be new: the tail before it may still answer an older version under its lease.
                    meta.outcome = NQ_OUTCOME_BUSY;
                }
                meta.sends = SEND_REPLY;
                meta.status = NQ_STATUS_BUSY;
            } else {
                meta.outcome = NQ_OUTCOME_FORWARDED;
                meta.sends = SEND_FORWARD;
                meta.to_address = meta.tail_address;
                meta.to_port = meta.tail_port;
            }
        }
        if (meta.sends == SEND_NOTHING) {
            answer();
            if (meta.clean == 0) {
                meta.flags = NQ_FLAG_DIRTY;
            }
            if (meta.absent == 1) {
                meta.outcome = NQ_OUTCOME_ANSWERED_ABSENT;
                meta.status = NQ_STATUS_NOT_FOUND;
            } else {
                meta.status = NQ_STATUS_OK;
                meta.shows = 1;
            }
        }
    }
}

#endif
