// SPDX-License-Identifier: Apache-2.0
// Part of a parser for v1model: what other targets put in front of a frame as platform_h.
    packet_out_h put;

    state start {
        meta.message_bytes = 0;
        meta.sound = 0;
        hdr.platform.setValid();
        hdr.platform.bytes = (bit<16>) istd.packet_length;
        hdr.platform.reason = 0;
        hdr.platform.port = (bit<8>) istd.ingress_port;
        hdr.platform.copies = 0;
        hdr.platform.copy = 0;
        hdr.platform.note = 0;
        hdr.platform.now = (bit<64>) istd.ingress_global_timestamp;
        hdr.platform.now = hdr.platform.now * 1000;
        transition select(istd.instance_type) {
            TYPE_AGAIN: again;
            default: first;
        }
    }
    state again {
        packet.extract(hdr.platform);
        hdr.platform.bytes = (bit<16>) istd.packet_length;
        hdr.platform.bytes = hdr.platform.bytes - PLATFORM_BYTES;
        transition received;
    }
    state first {
        transition select(istd.ingress_port) {
            NQ_PORT_CPU: put_in;
            default: received;
        }
    }
    state put_in {
        packet.extract(put);
        hdr.platform.bytes = hdr.platform.bytes - PACKET_OUT_BYTES;
        hdr.platform.port = put.port;
        hdr.platform.note = put.note;
        transition select(put.now) {
            0: received;
            default: given;
        }
    }
    state given {
        hdr.platform.now = put.now;
        transition received;
    }
