// SPDX-License-Identifier: Apache-2.0
// Internet checksums by plain additions, which every target has: words of 32 bits, then folded to 16 with the carry.
#ifndef NQ_SUM_P4
#define NQ_SUM_P4

#include "headers.p4"

// Adds both halves of a 64-bit field.
#define NQ_ADD64(field) \
    hdr.state.scratch = field; \
    hdr.state.scratch = hdr.state.scratch >> 32; \
    hdr.state.sum = hdr.state.sum + hdr.state.scratch; \
    hdr.state.scratch = field; \
    hdr.state.scratch = hdr.state.scratch & 0xffffffff; \
    hdr.state.sum = hdr.state.sum + hdr.state.scratch

#define NQ_ADD(field) \
    hdr.state.scratch = (bit<64>) field; \
    hdr.state.sum = hdr.state.sum + hdr.state.scratch

// Adds a byte in the first half of its 16 bits.
#define NQ_ADD_HIGH(field) \
    hdr.state.scratch = (bit<64>) field; \
    hdr.state.scratch = hdr.state.scratch << 8; \
    hdr.state.sum = hdr.state.sum + hdr.state.scratch

#define NQ_ADD_WORD(w) if (hdr.w.isValid()) { NQ_ADD64(hdr.w.word); }

#define NQ_FOLD \
    hdr.state.scratch = hdr.state.sum >> 16; \
    hdr.state.sum = hdr.state.sum & 0xffff; \
    hdr.state.sum = hdr.state.sum + hdr.state.scratch

// The sum of 32-bit words has at most 38 bits: three folds leave 16 and a carry, the fourth takes that.
#define NQ_FOLD_ALL NQ_FOLD; NQ_FOLD; NQ_FOLD; NQ_FOLD

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

// The sum of the IPv4 header, its checksum field included.
control Ipv4Sum(inout headers_t hdr) {
    apply {
        hdr.state.sum = 0;
        NQ_ADD_HIGH(hdr.ipv4.version_ihl);
        NQ_ADD(hdr.ipv4.service);
        NQ_ADD(hdr.ipv4.total_bytes);
        NQ_ADD(hdr.ipv4.identification);
        NQ_ADD(hdr.ipv4.fragment);
        NQ_ADD_HIGH(hdr.ipv4.ttl);
        NQ_ADD(hdr.ipv4.protocol);
        NQ_ADD(hdr.ipv4.checksum);
        NQ_ADD(hdr.ipv4.source);
        NQ_ADD(hdr.ipv4.destination);
        NQ_FOLD_ALL;
    }
}

#endif
