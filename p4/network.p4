// SPDX-License-Identifier: Apache-2.0
// The headers below a message, for every program.
#ifndef NQ_NETWORK_P4
#define NQ_NETWORK_P4

// Lengths of the headers in front of a message.
const bit<16> NQ_FRAME_BYTES = 42;
const bit<16> NQ_ETHERNET_BYTES = 14;
const bit<16> NQ_IPV4_BYTES = 20;
const bit<16> NQ_BELOW_BYTES = 28;
const bit<16> ETHER_TYPE_IPV4 = 0x0800;
const bit<8> IPV4_PLAIN = 0x45;
const bit<8> IPV4_UDP = 17;

// The reason for which a frame goes to the CPU port.
const bit<8> CPU_OBJECT = 1; // its key has no place yet: make one and inject the frame again
const bit<8> CPU_ROUTE = 2;  // the message is ready, but the table has no route for it
const bit<8> CPU_HEARTBEAT = 3; // a switch cannot compute its tag

// The target puts this header in front of each frame, as hardware does with its intrinsic metadata; it is never sent.
// On a frame to the CPU port it has the reason.
header platform_h {
    bit<64> now;   // nanoseconds on the clock of the leases, read when the frame was received
    bit<16> bytes; // of the frame
    bit<8> reason; // CPU_*
    bit<8> port;   // port that received the frame
    bit<8> copies; // of a frame to PORT_AGAIN: the copies that come from there
    bit<8> copy;   // of a frame from PORT_AGAIN: its number among the copies, from 0
    bit<16> note;  // of a frame to PORT_AGAIN: the program's, unchanged in the copies
}

header ethernet_h {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

header ipv4_h {
    bit<8> version_ihl;
    bit<8> service;
    bit<16> total_bytes;
    bit<16> identification;
    bit<16> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

header udp_h {
    bit<16> source;
    bit<16> destination;
    bit<16> bytes;
    bit<16> checksum;
}

struct empty_t {}

#endif
