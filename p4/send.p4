// SPDX-License-Identifier: Apache-2.0
// Makes the message, and its frame, from the result of the rules.
#ifndef NQ_SEND_P4
#define NQ_SEND_P4

#include "headers.p4"
#include "target.p4"
#include "sum.p4"

control DropValue(inout headers_t hdr, inout meta_t meta) {
    apply {
        meta.value_bytes = 0;
        NQ_REMOVE_VALUE
        hdr.rest.setInvalid();
    }
}

// The message's own header, by the kind of message.
control Compose(inout headers_t hdr, inout meta_t meta) {
    DropValue() drop_value;

    apply {
        // The stored value has taken the place of the packet's; that of an ADD is its result.
        hdr.state.scratch = 1;
        if (meta.shows == 1 || meta.sends == SEND_FORWARD || meta.sends == SEND_UPDATE) {
            hdr.state.scratch = 0;
        } else if (meta.op == NQ_OP_ADD && (meta.sends == SEND_RELAY || meta.sends == SEND_COPIES || meta.status == NQ_STATUS_OK)) {
            hdr.state.scratch = 0;
        }
        if (hdr.state.scratch == 1) {
            drop_value.apply(hdr, meta);
        }

        meta.message_bytes = (bit<16>) NQ_CHAIN_BYTES;
        if (meta.sends == SEND_REPLY || meta.sends == SEND_ACK) {
            meta.message_bytes = (bit<16>) NQ_VERSION_BYTES;
            hdr.chain.setInvalid();
            hdr.version.setValid();
            hdr.version.version = hdr.state.answer;
        } else if (!hdr.chain.isValid()) { // a READ to be forwarded
            hdr.chain.setValid();
            hdr.chain.session = 0;
            hdr.chain.seq = 0;
            hdr.chain.operand = 0;
            hdr.chain.version = 0;
            hdr.chain.reserved_8 = 0;
            hdr.chain.reserved_32 = 0;
        }
        meta.message_bytes = meta.message_bytes + meta.value_bytes;

        hdr.base.flags = 0;
        hdr.base.detail = 0;
        if (meta.sends == SEND_REPLY) {
            hdr.base.op = NQ_OP_REPLY;
            hdr.base.detail = meta.status;
            hdr.base.flags = meta.flags;
            if (meta.tail == 1) {
                hdr.base.flags = hdr.base.flags | NQ_FLAG_TAIL;
            }
            meta.to_address = meta.client_address;
            meta.to_port = meta.client_port;
        } else if (meta.sends == SEND_ACK) {
            hdr.base.op = NQ_OP_ACK;
        } else {
            hdr.chain.client_hi = 0;
            hdr.chain.client_lo_0 = 0xffff;
            hdr.chain.client_lo_1 = meta.client_address;
            hdr.chain.client_port = meta.client_port;
            hdr.chain.client_op = meta.op;
            if (meta.sends == SEND_FORWARD) {
                hdr.base.op = NQ_OP_FORWARD;
            } else if (meta.sends == SEND_UPDATE) {
                hdr.base.op = NQ_OP_UPDATE;
                hdr.chain.version = hdr.state.answer;
                meta.to_address = meta.next_address;
                meta.to_port = meta.next_port;
            } else {
                hdr.base.op = NQ_OP_RELAY;
                hdr.chain.version = hdr.state.answer;
                meta.to_address = meta.previous_address;
                meta.to_port = meta.previous_port;
            }
        }
        if (meta.sends != SEND_COPIES) {
            hdr.base.hops = hdr.base.hops + 1;
        }
        hdr.base.epoch = meta.epoch;
    }
}

// W7 with copies: the frame goes to PORT_AGAIN as a RELAY to this node, with what the copies need: the version
// of the write, that of the object in the place of the operand, and the client.
control Copies(inout headers_t hdr, inout meta_t meta) {
    apply {
        hdr.chain.operand = hdr.state.committed;
        hdr.platform.copies = meta.copies;
        hdr.ipv4.total_bytes = meta.message_bytes + NQ_BELOW_BYTES;
        hdr.udp.bytes = hdr.ipv4.total_bytes - NQ_IPV4_BYTES;
    }
}

// A frame from PORT_AGAIN: the first copy becomes the client's answer, each other one an ACK for a member. The rules
// were applied before the frame was copied, so a copy reads and writes no register.
control Copy(inout headers_t hdr, inout meta_t meta) {
    action member_at(bit<32> address, bit<16> port) {
        meta.sends = SEND_ACK;
        meta.to_address = address;
        meta.to_port = port;
    }
    action none() {}
    // The multicast groups: the member that gets a copy.
    table group {
        key = {
            hdr.base.shard: exact;
            hdr.platform.copy: exact;
        }
        actions = { member_at; none; }
        default_action = none();
        size = 65536;
    }

    apply {
        meta.ours = 1;
        meta.tail = 1;
        meta.epoch = hdr.base.epoch;
        meta.client_address = hdr.chain.client_lo_1;
        meta.client_port = hdr.chain.client_port;
        if (hdr.platform.copy == 0) {
            meta.sends = SEND_REPLY;
            meta.op = hdr.chain.client_op;
            hdr.state.answer = hdr.chain.version;
        } else {
            group.apply();
            meta.op = NQ_OP_ACK;
            hdr.state.answer = hdr.chain.operand;
        }
    }
}

// IPv4 and UDP in front of the message, and the checksums of both.
control Wrap(inout headers_t hdr, inout meta_t meta) {
    MessageSum() message_sum;

    apply {
        hdr.base.checksum = 0;
        message_sum.apply(hdr);
        hdr.state.sum = hdr.state.sum ^ 0xffff;
        hdr.base.checksum = (bit<16>) hdr.state.sum;

        if (meta.to_address == hdr.ipv4.source && meta.to_port == hdr.udp.source &&
            hdr.platform.port != NQ_PORT_AGAIN) {
            meta.straight = 1;
        }
        hdr.ipv4.source = hdr.ipv4.destination;
        hdr.ipv4.destination = meta.to_address;
        hdr.ipv4.service = 0;
        hdr.ipv4.identification = 0;
        hdr.ipv4.fragment = 0x4000;
        hdr.ipv4.ttl = (bit<8>) NQ_REPLY_TTL;
        hdr.ipv4.total_bytes = meta.message_bytes + NQ_BELOW_BYTES;
        hdr.udp.source = hdr.udp.destination;
        hdr.udp.destination = meta.to_port;
        hdr.udp.bytes = hdr.ipv4.total_bytes - NQ_IPV4_BYTES;
        hdr.udp.checksum = 0;
    }
}

#endif
