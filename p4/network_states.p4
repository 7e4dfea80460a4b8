// SPDX-License-Identifier: Apache-2.0
// Part of a parser: the headers below a message, up to the state message of the program. A target without bounds checks
// in its parser gets the length of the frame, and the parser extracts no bytes beyond it.
#ifdef NQ_V1MODEL
#include "v1model_states.p4"
    state received {
#else
    state start {
        packet.extract(hdr.platform);
        meta.message_bytes = 0;
        meta.sound = 0;
#endif
        transition select(hdr.platform.bytes < NQ_FRAME_BYTES) {
            true: accept;
            default: ethernet;
        }
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHER_TYPE_IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl) {
            IPV4_PLAIN: ipv4_plain;
            default: accept;
        }
    }
    state ipv4_plain {
        transition select(hdr.ipv4.protocol) {
            IPV4_UDP: udp;
            default: accept;
        }
    }
    // Bytes behind the IPv4 packet are padding.
    state udp {
        packet.extract(hdr.udp);
        meta.message_bytes = hdr.platform.bytes - NQ_ETHERNET_BYTES;
        transition select(hdr.ipv4.total_bytes > meta.message_bytes) {
            true: accept;
            default: inside;
        }
    }
    state inside {
        transition select(hdr.ipv4.total_bytes < NQ_BELOW_BYTES) {
            true: accept;
            default: covered;
        }
    }
    state covered {
        meta.message_bytes = hdr.ipv4.total_bytes - NQ_IPV4_BYTES;
        transition select(hdr.udp.bytes == meta.message_bytes) {
            true: message;
            default: accept;
        }
    }
