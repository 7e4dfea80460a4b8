// SPDX-License-Identifier: Apache-2.0
// Internet checksums by plain additions, which every target has: words of 32 bits, then folded to 16 with the carry.
// The program's headers_t has fields sum and scratch, of 64 bits, in state.
#ifndef NQ_IPV4_P4
#define NQ_IPV4_P4

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

#define NQ_FOLD \
    hdr.state.scratch = hdr.state.sum >> 16; \
    hdr.state.sum = hdr.state.sum & 0xffff; \
    hdr.state.sum = hdr.state.sum + hdr.state.scratch

// The sum of 32-bit words has at most 38 bits: three folds leave 16 and a carry, the fourth takes that.
#define NQ_FOLD_ALL NQ_FOLD; NQ_FOLD; NQ_FOLD; NQ_FOLD

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
