// SPDX-License-Identifier: Apache-2.0
// The checksum of a message.
#ifndef NQ_SUM_P4
#define NQ_SUM_P4

#include "headers.p4"
#include "ipv4.p4"

#define NQ_ADD_WORD(w) if (hdr.w.isValid()) { NQ_ADD64(hdr.w.word); }

// The sum of the message in hdr, its checksum field included.
control MessageSum(inout headers_t hdr) {
    apply {
        hdr.state.sum = 0;
        NQ_ADD(hdr.base.magic);
        NQ_ADD_HIGH(hdr.base.version);
        NQ_ADD(hdr.base.op);
        NQ_ADD_HIGH(hdr.base.flags);
        NQ_ADD(hdr.base.hops);
        NQ_ADD(hdr.base.shard);
        NQ_ADD(hdr.base.epoch);
        NQ_ADD(hdr.base.checksum);
        NQ_ADD(hdr.base.detail);
        NQ_ADD64(hdr.base.request);
        NQ_ADD64(hdr.base.key_hi);
        NQ_ADD64(hdr.base.key_lo);
        if (hdr.version.isValid()) {
            NQ_ADD64(hdr.version.version);
        }
        if (hdr.chain.isValid()) {
            NQ_ADD64(hdr.chain.session);
            NQ_ADD64(hdr.chain.seq);
            NQ_ADD64(hdr.chain.operand);
            NQ_ADD64(hdr.chain.version);
            NQ_ADD64(hdr.chain.client_hi);
            NQ_ADD(hdr.chain.client_lo_0);
            NQ_ADD(hdr.chain.client_lo_1);
            NQ_ADD(hdr.chain.client_port);
            NQ_ADD_HIGH(hdr.chain.client_op);
            NQ_ADD(hdr.chain.reserved_8);
            NQ_ADD(hdr.chain.reserved_32);
        }
        NQ_ADD_WORD(w0)
        NQ_ADD_WORD(w1)
        NQ_ADD_WORD(w2)
        NQ_ADD_WORD(w3)
        NQ_ADD_WORD(w4)
        NQ_ADD_WORD(w5)
        NQ_ADD_WORD(w6)
        NQ_ADD_WORD(w7)
        if (hdr.t4.isValid()) {
            NQ_ADD(hdr.t4.part);
        }
        if (hdr.t2.isValid()) {
            NQ_ADD(hdr.t2.part);
        }
        if (hdr.t1.isValid()) {
            NQ_ADD_HIGH(hdr.t1.part);
        }
        NQ_FOLD_ALL;
    }
}

#endif
