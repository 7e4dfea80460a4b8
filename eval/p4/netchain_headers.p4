// SPDX-License-Identifier: Apache-2.0
// Messages and registers of NetChain: eval/spec/baselines.md.
#ifndef NC_HEADERS_P4
#define NC_HEADERS_P4

#include "../../p4/wire.p4"
#include "../../p4/network.p4"
#include "../../p4/value.p4"

// Places in the register arrays.
#define NC_SLOTS 65536

const bit<16> NC_PORT = 8888;
const bit<16> NC_HEAD_BYTES = 24; // before the value
const bit<16> NC_COMPARE_BYTES = 16;
const bit<8> NC_MAX_LIST = 7;
const bit<8> NC_WIDE_OPS = 16; // added to the number of an op where SEQ has 32 bits

const bit<8> NC_READ = 1;
const bit<8> NC_WRITE = 2;
const bit<8> NC_CAS = 3;
const bit<8> NC_READ_REPLY = 4;
const bit<8> NC_WRITE_REPLY = 5;
const bit<8> NC_CAS_FAIL = 6;
const bit<8> NC_NOT_FOUND = 7;

// Outcomes: those of eval/baseline/netchain.
const bit<16> NC_MALFORMED = 0;
const bit<16> NC_TRANSIT = 1;
const bit<16> NC_REDIRECTED = 2;
const bit<16> NC_BLOCKED = 3;
const bit<16> NC_ANSWERED = 4;
const bit<16> NC_MISSING = 5;
const bit<16> NC_ORDERED = 6;
const bit<16> NC_ACCEPTED = 7;
const bit<16> NC_STALE = 8;
const bit<16> NC_REFUSED = 9;

// Actions of failure rules: those of eval/baseline/netchain.
const bit<8> NC_NO_RULE = 0;
const bit<8> NC_SKIP = 1;
const bit<8> NC_BLOCK = 2;
const bit<8> NC_REPLACE = 3;

// The message before the value. SEQ of 16 bits: first is SEQ, second is the length of the value and 16 zeros. SEQ of 32
// bits: first is the length, second is SEQ.
header head_h {
    bit<8> op;
    bit<8> sc;
    bit<16> first;
    bit<32> second;
    bit<64> key_hi;
    bit<64> key_lo;
}

// A value that is too long for a cell.
header rest_h { varbit<11584> bytes; }

header address_h { bit<32> address; }

// The message, and the registers of its key. It is no part of a packet.
header state_h {
    bit<64> sum;
    bit<64> scratch;
    bit<32> seq;
    bit<32> cell_seq;
    bit<32> mask; // the bits of SEQ
    bit<16> cell_bytes;
    bit<8> op;
    bit<8> wide_ops;
    bit<64> first; // words of the stored value
    bit<64> second;
}

struct headers_t {
    platform_h platform;
    ethernet_h ethernet;
    ipv4_h ipv4;
    udp_h udp;
    head_h head;
    NQ_VALUE_HEADERS
    rest_h rest;
    address_h a0;
    address_h a1;
    address_h a2;
    address_h a3;
    address_h a4;
    address_h a5;
    address_h a6;
    state_h state;
}

struct meta_t {
    bit<16> message_bytes;
    bit<8> sound; // the frame is complete
    bit<8> whole; // and its message
    bit<16> value_bytes;
    bit<16> list_bytes;
    bit<32> rest_bits;
    bit<16> words;
    bit<16> part4;
    bit<16> part2;
    bit<16> part1;

    // Of the node.
    bit<8> ours; // the packet has the port of a node
    bit<32> self;
    bit<16> most_bytes; // of a value
    bit<32> group_mask;

    // Of the message.
    bit<8> decoded; // a message of the node's width
    bit<32> group;
    bit<32> object;
    bit<8> found;
    bit<8> popped; // addresses taken from the list
    bit<8> rule;
    bit<16> outcome;
    bit<32> count;

    bit<8> sends;
    bit<8> answers;
    bit<8> straight;
    bit<8> routed;
    bit<32> to_address;
    bit<16> to_port;
    bit<48> link_address;
}

#endif
