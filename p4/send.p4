// SPDX-License-Identifier: Apache-2.0
// Makes the message, and its frame, from the result of the rules.
#ifndef NQ_SEND_P4
#define NQ_SEND_P4

#include "headers.p4"
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
        } else if (meta.op == NQ_OP_ADD && (meta.sends == SEND_RELAY || meta.status == NQ_STATUS_OK)) {
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
            meta.to_address = hdr.ipv4.source;
            meta.to_port = hdr.udp.source;
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
        hdr.base.hops = hdr.base.hops + 1;
        hdr.base.epoch = meta.epoch;
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

        if (meta.to_address == hdr.ipv4.source && meta.to_port == hdr.udp.source) {
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
