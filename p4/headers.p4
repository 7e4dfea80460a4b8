// SPDX-License-Identifier: Apache-2.0
// Headers behind a message, and the metadata that the controls share. p4c's DPDK backend drops a comparison by < or >
// behind && or ||, so each has a separate if. It takes a constant that is assigned to a table's result for the result.
#ifndef NQ_HEADERS_P4
#define NQ_HEADERS_P4

#include "wire.p4"
#include "network.p4"
#include "value.p4"

// The numbers of objects and sessions of a target, powers of two. The session table has NQ_SESSION_WAYS ways of
// NQ_SESSION_SLOTS.
#ifndef NQ_OBJECTS
#define NQ_OBJECTS 65536
#endif
#ifndef NQ_SESSION_SLOTS
#define NQ_SESSION_SLOTS 16384
#endif
#define NQ_SESSION_ENTRIES (4 * NQ_SESSION_SLOTS)

// Of a shard's state; those of internal/chain.
const bit<8> STATE_NONE = 0;
const bit<8> STATE_ACTIVE = 1;

// Of a shard without a lease of its own: that of the node counts.
const bit<64> LEASE_OF_NODE = 1;

// The role of a member of a shard's chain, relative to this node.
const bit<8> ROLE_MEMBER = 1;
const bit<8> ROLE_PREVIOUS = 2;
const bit<8> ROLE_NEXT = 4;
const bit<8> ROLE_TAIL = 8;

// No outcome yet: the message goes on through the rules.
const bit<8> OPEN = 0xff;

// The kind of message that leaves the node as the result of a message.
const bit<8> SEND_NOTHING = 0;
const bit<8> SEND_REPLY = 1;
const bit<8> SEND_FORWARD = 2;
const bit<8> SEND_UPDATE = 3;
const bit<8> SEND_RELAY = 4;
const bit<8> SEND_ACK = 5;
const bit<8> SEND_TO_CPU = 6;
const bit<8> SEND_COPIES = 7; // the client's answer and the ACKs of W7

// The bytes behind the first NQ_CELL_BYTES of a message that is too long for a cell.
header rest_h { varbit<11584> bytes; }

// The object and the session of a message, as read from registers. It is no part of a packet, but SWX has 256 bytes of
// metadata only, and the same in each header. For the same reason the program avoids casts to fewer bits:
// each such cast costs up to 24 bytes there.
header state_h {
    bit<64> version;   // newest applied
    bit<64> committed; // newest known committed
    bit<16> bytes;     // of its value, and whether it is a tombstone
    bit<16> reserved_16;
    bit<32> epoch;     // in which it became clean, 0 if it is not
    bit<64> first;     // first word of the value, for ADD
    bit<64> lease;     // of the shard
    bit<64> seq;       // of the session
    bit<64> last;      // version of the session's last write
    bit<64> result;    // of its ADD
    bit<64> key_lo;    // of its key
    bit<16> noted;     // its status
    bit<8> noted_op;
    bit<8> reserved_8;
    bit<32> reserved_32;
    bit<64> slot;
    bit<64> entry;
    bit<64> mark;      // the version up to which the object is committed now
    bit<64> answer;    // the version that a message will carry
    bit<64> sum;       // of a checksum
    bit<64> scratch;
    bit<64> session0;  // of the sessions in the slot
    bit<64> session1;
    bit<64> session2;
    bit<64> session3;
    bit<16> shard0;
    bit<16> shard1;
    bit<16> shard2;
    bit<16> shard3;
    bit<32> used;      // sessions
    bit<32> reserved_more;
}

// The length of a value, in the stored field.
const bit<16> BYTES_TOMBSTONE = 0x100;
const bit<16> BYTES_LENGTH = 0xff;

struct headers_t {
    platform_h platform;
    ethernet_h ethernet;
    ipv4_h ipv4;
    udp_h udp;
    nq_base_h base;
    nq_version_h version;
    nq_chain_h chain;
    NQ_VALUE_HEADERS
    rest_h rest;
    state_h state;
}

struct meta_t {
    // Of the frame.
    bit<16> message_bytes; // of the UDP payload
    bit<16> value_bytes;   // behind the fixed headers of the message
    bit<16> words;
    bit<16> part4;
    bit<16> part2;
    bit<16> part1;
    bit<32> rest_bits;
    bit<8> sound;    // lengths agree
    bit<8> too_long; // the value is longer than any cell; its checksum is not verified
    bit<8> ours;

    // Of the node.
    bit<16> shard_mask;
    bit<16> cell_bytes;
    bit<32> slot_mask;
    bit<32> max_entries;

    // Of the message.
    bit<8> op; // the client's operation
    bit<8> counted_op;
    bit<8> outcome;
    bit<8> sends;
    bit<8> flags; // of the reply
    bit<16> status;
    bit<32> client_address;
    bit<16> client_port;

    // Of the shard.
    bit<8> located;
    bit<32> epoch;
    bit<8> state;
    bit<8> head;
    bit<8> tail;
    bit<8> learner;
    bit<8> role; // of the sender
    bit<32> head_address;
    bit<16> head_port;
    bit<32> tail_address;
    bit<16> tail_port;
    bit<32> next_address;
    bit<16> next_port;
    bit<32> previous_address;
    bit<16> previous_port;
    bit<8> copies; // the members of the chain, if this is their tail and clones its ACKs

    // Of the object.
    bit<32> object;
    bit<8> found;
    bit<8> full; // there is no room for another
    bit<8> clean;
    bit<8> absent;
    bit<8> permitted;

    // Of the session.
    bit<8> has_entry;

    bit<8> step; // that the control plane asks for

    // Changes that the rules request.
    bit<8> wants_object; // the object must be made
    bit<8> applies;
    bit<8> commits;
    bit<8> records;
    bit<8> hands;
    bit<8> shows;        // the stored value goes into the message
    bit<8> counts_read;

    // The destination of the message.
    bit<32> to_address;
    bit<16> to_port;
    bit<8> straight; // back to the port that received it
    bit<48> link_address;
    bit<8> routes;
    bit<8> routed;
    bit<32> count;
}

#endif
