// SPDX-License-Identifier: Apache-2.0
// Chooses the port of a frame: IPv4 forwarding, for the node's own messages and for other traffic.
#ifndef NQ_ROUTE_P4
#define NQ_ROUTE_P4

#include "network.p4"
#include "target.p4"
#include "ipv4.p4"

control Route(inout headers_t hdr, inout meta_t meta,
              in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    Ipv4Sum() header_sum;

    action via(bit<32> port, bit<48> source, bit<48> destination) {
        meta.routed = 1;
        ostd.egress_port = (PortId_t) port;
        hdr.ethernet.source = source;
        hdr.ethernet.destination = destination;
    }
    action unknown() {
        meta.routed = 0;
    }
    // Routes to hosts; the control plane adds a route when the node first sends to the host.
    table routes {
        key = { meta.to_address: exact; }
        actions = { via; unknown; }
        default_action = unknown();
        size = 4096;
    }
    action onward(bit<32> port, bit<48> source, bit<48> destination) {
        meta.routed = 1;
        ostd.egress_port = (PortId_t) port;
        hdr.ethernet.source = source;
        hdr.ethernet.destination = destination;
    }
    action to_host() {
        meta.routed = 0;
    }
    // IPv4 forwarding of frames for other destinations, if the switch does it and not the host behind it.
    table transit {
        key = { meta.to_address: exact; }
        actions = { onward; to_host; }
        default_action = to_host();
        size = 4096;
    }
    action turn_back() {
        meta.link_address = hdr.ethernet.source;
        hdr.ethernet.source = hdr.ethernet.destination;
        hdr.ethernet.destination = meta.link_address;
        ostd.egress_port = istd.ingress_port;
        meta.routed = 1;
    }

    apply {
        meta.routed = 0;
        if (meta.ours == 0) {
            transit.apply();
            if (meta.routed == 1) {
                hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
                // A TTL that is one less makes the checksum 0x100 more, with the carry.
                hdr.ipv4.checksum = hdr.ipv4.checksum + 0x100;
                if (hdr.ipv4.checksum < 0x100) {
                    hdr.ipv4.checksum = hdr.ipv4.checksum + 1;
                }
            } else {
                ostd.egress_port = PORT_HOST;
            }
        } else {
            hdr.ipv4.checksum = 0;
            header_sum.apply(hdr);
            hdr.state.sum = hdr.state.sum ^ 0xffff;
            hdr.ipv4.checksum = (bit<16>) hdr.state.sum;
            if (meta.straight == 1) {
                turn_back();
            } else {
                routes.apply();
                if (meta.routed == 0) {
                    hdr.platform.reason = CPU_ROUTE;
                    ostd.egress_port = PORT_CPU;
                }
            }
        }
    }
}

#endif
