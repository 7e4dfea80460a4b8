// SPDX-License-Identifier: Apache-2.0
// Sends every UDP packet back to its source: addresses and ports swapped, and as long as the answer to a read of 16
// bytes. The limit that the benchmark compares a node with, so it checks nothing.
#include "target.p4"

#include "network.p4"

// What an answer has more than its request: a version and a value of 16 bytes.
header more_h {
    bit<64> first;
    bit<64> second;
    bit<64> third;
}

struct headers_t {
    platform_h platform;
    ethernet_h ethernet;
    ipv4_h ipv4;
    udp_h udp;
    more_h more;
}

struct meta_t {
    bit<16> message_bytes;
    bit<8> sound;
    bit<48> link_address;
    bit<32> address;
    bit<16> port;
}

parser NodeParser(packet_in packet, out headers_t hdr, inout meta_t meta, NQ_PARSER_IN) {
#include "network_states.p4"

    state message {
        meta.sound = 1;
        transition accept;
    }
}

control Node(inout headers_t hdr, inout meta_t meta,
             in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    apply {
        ostd.drop = false;
        ostd.egress_port = PORT_HOST;
        hdr.platform.setInvalid();
        if (meta.sound == 1) {
            meta.link_address = hdr.ethernet.source;
            hdr.ethernet.source = hdr.ethernet.destination;
            hdr.ethernet.destination = meta.link_address;
            meta.address = hdr.ipv4.source;
            hdr.ipv4.source = hdr.ipv4.destination;
            hdr.ipv4.destination = meta.address;
            meta.port = hdr.udp.source;
            hdr.udp.source = hdr.udp.destination;
            hdr.udp.destination = meta.port;
            hdr.more.setValid();
            hdr.more.first = 0;
            hdr.more.second = 0;
            hdr.more.third = 0;
            ostd.egress_port = istd.ingress_port;
        }
    }
}

control NodeDeparser(NQ_DEPARSER) {
    apply {
        packet.emit(hdr.platform);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.more);
    }
}

#include "exit.p4"
