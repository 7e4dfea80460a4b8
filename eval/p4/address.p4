// SPDX-License-Identifier: Apache-2.0
// Addresses and lengths of a packet that the node changed: an answer goes back to its source, any other packet keeps
// its client as source.
#ifndef NQ_BASELINE_ADDRESS_P4
#define NQ_BASELINE_ADDRESS_P4

control Address(inout headers_t hdr, inout meta_t meta) {
    apply {
        if (meta.answers == 1) {
            meta.to_address = hdr.ipv4.source;
            hdr.ipv4.source = hdr.ipv4.destination;
            hdr.ipv4.destination = meta.to_address;
            meta.to_port = hdr.udp.source;
            hdr.udp.source = hdr.udp.destination;
            hdr.udp.destination = meta.to_port;
        }
        meta.to_address = hdr.ipv4.destination;
        hdr.ipv4.ttl = (bit<8>) NQ_REPLY_TTL;
        hdr.ipv4.total_bytes = meta.message_bytes + NQ_BELOW_BYTES;
        hdr.udp.bytes = hdr.ipv4.total_bytes - NQ_IPV4_BYTES;
        hdr.udp.checksum = 0;
    }
}

#endif
