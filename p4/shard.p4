// SPDX-License-Identifier: Apache-2.0
// A9 and A10: is the shard served here, and may the sender send this?
#ifndef NQ_SHARD_P4
#define NQ_SHARD_P4

#include "headers.p4"

control Shard(inout headers_t hdr, inout meta_t meta) {
    action chain(bit<32> epoch, bit<8> state, bit<8> head, bit<8> tail, bit<8> learner,
                 bit<32> head_address, bit<16> head_port, bit<32> tail_address, bit<16> tail_port,
                 bit<32> next_address, bit<16> next_port, bit<32> previous_address, bit<16> previous_port,
                 bit<8> copies) {
        meta.epoch = epoch;
        meta.state = state;
        meta.head = head;
        meta.tail = tail;
        meta.learner = learner;
        meta.head_address = head_address;
        meta.head_port = head_port;
        meta.tail_address = tail_address;
        meta.tail_port = tail_port;
        meta.next_address = next_address;
        meta.next_port = next_port;
        meta.previous_address = previous_address;
        meta.previous_port = previous_port;
        meta.copies = copies;
    }
    action unknown() {
        meta.state = STATE_NONE;
        meta.epoch = 0;
    }
    table shards {
        key = { hdr.base.shard: exact; }
        actions = { chain; unknown; }
        default_action = unknown();
        size = 65536;
    }

    action member(bit<8> role) {
        meta.role = role;
    }
    action stranger() {
        meta.role = 0;
    }
    // The other members of each shard's chain.
    table members {
        key = {
            hdr.base.shard: exact;
            hdr.ipv4.source: exact;
            hdr.udp.source: exact;
        }
        actions = { member; stranger; }
        default_action = stranger();
        size = 65536;
    }

    action from_client_of(bit<16> status) {
        meta.sends = SEND_REPLY;
        meta.status = status;
    }

    apply {
        hdr.state.scratch = hdr.base.key_lo & (bit<64>) meta.shard_mask;
        hdr.state.sum = (bit<64>) hdr.base.shard;
        if (hdr.base.shard > meta.shard_mask) {
            meta.outcome = NQ_OUTCOME_NOT_MINE;
            if (hdr.base.op < NQ_OP_FORWARD) {
                from_client_of(NQ_STATUS_NOT_MINE);
            }
        } else if (hdr.state.scratch != hdr.state.sum) {
            if (hdr.base.op < NQ_OP_FORWARD) {
                meta.outcome = NQ_OUTCOME_BAD_REQUEST;
                from_client_of(NQ_STATUS_BAD_REQUEST);
            } else {
                meta.outcome = NQ_OUTCOME_MALFORMED;
            }
        } else {
            meta.located = 1;
            shards.apply();
            members.apply();
            if (meta.state == STATE_NONE) {
                meta.tail = 0;
                meta.outcome = NQ_OUTCOME_NOT_MINE;
                if (hdr.base.op < NQ_OP_FORWARD) {
                    from_client_of(NQ_STATUS_NOT_MINE);
                }
            } else if (hdr.base.op == NQ_OP_FORWARD) {
                if (meta.role == 0) {
                    meta.outcome = NQ_OUTCOME_STRANGER;
                }
            } else if (hdr.base.op > NQ_OP_FORWARD) {
                if (hdr.base.epoch != meta.epoch) {
                    meta.outcome = NQ_OUTCOME_OTHER_EPOCH;
                } else if (meta.state != STATE_ACTIVE) {
                    meta.outcome = NQ_OUTCOME_INACTIVE;
                } else {
                    hdr.state.scratch = (bit<64>) meta.role;
                    if (hdr.base.op == NQ_OP_UPDATE) {
                        hdr.state.scratch = hdr.state.scratch & (bit<64>) ROLE_PREVIOUS;
                    } else if (hdr.base.op == NQ_OP_ACK) {
                        hdr.state.scratch = hdr.state.scratch & (bit<64>) ROLE_TAIL;
                    } else if (hdr.base.op == NQ_OP_RELAY) {
                        hdr.state.scratch = hdr.state.scratch & (bit<64>) ROLE_NEXT;
                    }
                    if (hdr.state.scratch == 0) {
                        meta.outcome = NQ_OUTCOME_STRANGER;
                    }
                }
            }
        }
    }
}

#endif
