// SPDX-License-Identifier: Apache-2.0
// Messages and registers of NetCRAQ as published: eval/spec/baselines.md.
#ifndef NP_HEADERS_P4
#define NP_HEADERS_P4

#include "../../p4/wire.p4"
#include "../../p4/network.p4"

// Objects of a node, and 8 cells for each: the most versions that an object has.
#define NP_OBJECTS 65536
#define NP_VERSION_BITS 3
#define NP_CELLS (NP_OBJECTS << NP_VERSION_BITS)

const bit<16> NP_PORT = 8889;
const bit<16> NP_MESSAGE_BYTES = 21;

// KV_OP
const bit<64> NP_READ = 0;
const bit<64> NP_READ_REPLY = 1;
const bit<64> NP_WRITE = 2;
const bit<64> NP_ACKNOWLEDGE = 3;

// Outcomes: those of eval/baseline/netcraqpaper.
const bit<32> NP_MALFORMED = 0;
const bit<32> NP_TRANSIT = 1;
const bit<32> NP_OUT_OF_RANGE = 2;
const bit<32> NP_CLEAN_READ = 3;
const bit<32> NP_DIRTY_READ = 4;
const bit<32> NP_FORWARDED = 5;
const bit<32> NP_CLEAN_WRITE = 6;
const bit<32> NP_DIRTY_WRITE = 7;
const bit<32> NP_OVERFLOW = 8;
const bit<32> NP_COMMITTED = 9;
const bit<32> NP_ACKNOWLEDGED = 10;

// 2 bits of KV_OP, 32 of KEY_ID, 128 of VALUE and 6 zeros.
header message_h {
    bit<64> first;  // KV_OP, KEY_ID, 30 bits of VALUE
    bit<64> second; // 64 bits of VALUE
    bit<40> third;  // 34 bits of VALUE, 6 zeros
}

// The fields of the message, and the registers of its object. It is no part of a packet.
header state_h {
    bit<64> sum;
    bit<64> scratch;
    bit<64> op;
    bit<64> key;
    bit<64> high; // half of the value
    bit<64> low;
    bit<64> cell;
    bit<64> read_index;
    bit<64> write_index;
    bit<64> keys;
    bit<64> versions;
}

struct headers_t {
    platform_h platform;
    ethernet_h ethernet;
    ipv4_h ipv4;
    udp_h udp;
    message_h message;
    state_h state;
}

struct meta_t {
    bit<16> message_bytes;
    bit<8> sound;
    bit<8> ours;
    bit<32> next;
    bit<32> tail;
    bit<8> is_tail;
    bit<8> copies; // of an acknowledgement: one for the client, one for each other node
    bit<8> stores;
    bit<32> outcome;
    bit<8> sends;
    bit<8> answers;
    bit<8> straight;
    bit<8> routed;
    bit<32> to_address;
    bit<16> to_port;
    bit<48> link_address;
}

#endif
