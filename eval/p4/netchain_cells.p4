// SPDX-License-Identifier: Apache-2.0
// A message that is for this node: the register arrays, and the rules over them. There is no table between the first
// read of a register and the last write, as in p4/state.p4.
#ifndef NC_CELLS_P4
#define NC_CELLS_P4

#include "netchain_headers.p4"
#include "netchain_message.p4"

control Cells(inout headers_t hdr, inout meta_t meta) {
    Register<bit<32>, bit<32>>(NC_SLOTS) cell_seq;
    Register<bit<16>, bit<32>>(NC_SLOTS) cell_bytes;
    NQ_VALUE_REGISTERS(NC_SLOTS)

    Pop() pop;

    action answer(bit<8> op) {
        hdr.state.op = op;
        meta.answers = 1;
        meta.sends = SEND_CHANGED;
    }
    // The stored number and value take the place of the message's.
    action show(bit<8> op) {
        answer(op);
        hdr.state.seq = hdr.state.cell_seq;
        meta.value_bytes = hdr.state.cell_bytes;
    }

    apply {
        meta.outcome = NC_MALFORMED;
        if (meta.found == 1) {
            hdr.state.cell_seq = cell_seq.read(meta.object);
            hdr.state.cell_bytes = cell_bytes.read(meta.object);
            hdr.state.first = value0.read(meta.object);
            hdr.state.second = value1.read(meta.object);
        }
        if (meta.decoded == 0) {
            meta.found = 0;
        } else if (hdr.state.op > NC_CAS) {
            meta.found = 0;
        } else if (meta.found == 0) {
            meta.outcome = NC_MISSING;
            answer(NC_NOT_FOUND);
            meta.value_bytes = 0;
        } else if (hdr.state.op == NC_READ) {
            if (meta.value_bytes == 0) {
                meta.outcome = NC_ANSWERED;
                show(NC_READ_REPLY);
            }
        } else {
            if (hdr.state.op == NC_CAS) {
                if (meta.value_bytes == 2 * NC_COMPARE_BYTES && hdr.state.seq == 0) {
                    if (hdr.state.cell_bytes == NC_COMPARE_BYTES && hdr.state.first == hdr.w0.word &&
                        hdr.state.second == hdr.w1.word) {
                        hdr.state.op = NC_WRITE;
                        meta.value_bytes = NC_COMPARE_BYTES;
                        hdr.w0.word = hdr.w2.word;
                        hdr.w1.word = hdr.w3.word;
                        hdr.w2.setInvalid();
                        hdr.w3.setInvalid();
                    } else {
                        meta.outcome = NC_REFUSED;
                        show(NC_CAS_FAIL);
                    }
                }
            }
            if (hdr.state.op == NC_WRITE) {
                if (meta.value_bytes <= meta.most_bytes) {
                    meta.outcome = NC_STALE;
                    if (hdr.state.seq == 0) {
                        meta.outcome = NC_ORDERED;
                        hdr.state.seq = hdr.state.cell_seq + 1;
                        hdr.state.seq = hdr.state.seq & hdr.state.mask;
                    } else if (hdr.state.seq > hdr.state.cell_seq) {
                        meta.outcome = NC_ACCEPTED;
                    }
                }
            }
        }
        if (meta.outcome == NC_ORDERED || meta.outcome == NC_ACCEPTED) {
            cell_seq.write(meta.object, hdr.state.seq);
            cell_bytes.write(meta.object, meta.value_bytes);
            NQ_STORE_VALUE
            if (hdr.head.sc == 0) {
                answer(NC_WRITE_REPLY);
            } else {
                meta.sends = SEND_CHANGED;
                pop.apply(hdr, meta);
            }
        } else if (meta.answers == 1) {
            NQ_REMOVE_VALUE
            hdr.rest.setInvalid();
            if (meta.found == 1) {
                NQ_SHOW_VALUE
            }
        }
    }
}

#endif
