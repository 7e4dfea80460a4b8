// SPDX-License-Identifier: Apache-2.0
// Failure rules, for packets in transit and for those that the node sends on. A packet that a rule gave another
// destination is a new packet, through PORT_AGAIN: a rule may apply to that destination too, and it may be this node.
#ifndef NC_RULES_P4
#define NC_RULES_P4

#include "netchain_headers.p4"
#include "netchain_message.p4"

control Rules(inout headers_t hdr, inout meta_t meta) {
    Pop() pop;

    action skip() {
        meta.rule = NC_SKIP;
    }
    action block() {
        meta.rule = NC_BLOCK;
    }
    action replace(bit<32> by) {
        meta.rule = NC_REPLACE;
        hdr.ipv4.destination = by;
    }
    action none() {
        meta.rule = NC_NO_RULE;
    }
    // Rules of a destination and a virtual group.
    table rules {
        key = {
            meta.to_address: exact;
            meta.group: exact;
        }
        actions = { skip; block; replace; none; }
        default_action = none();
        size = 65536;
    }

    apply {
        hdr.state.scratch = hdr.head.key_lo & 0xffff;
        meta.group = (bit<32>) hdr.state.scratch;
        meta.group = meta.group & meta.group_mask;
        meta.to_address = hdr.ipv4.destination;
        rules.apply();
        if (meta.rule != NC_NO_RULE) {
            if (meta.outcome == NC_TRANSIT) {
                meta.outcome = NC_REDIRECTED;
            }
            meta.sends = SEND_CHANGED;
            if (meta.rule == NC_SKIP && hdr.head.sc != 0) {
                pop.apply(hdr, meta);
                meta.sends = SEND_AGAIN;
                hdr.platform.copies = 1;
                hdr.platform.note = meta.outcome;
            } else if (meta.rule == NC_SKIP && hdr.state.op == NC_WRITE && hdr.state.seq != 0) {
                // The last node is skipped: the answer is in its name.
                hdr.state.op = NC_WRITE_REPLY;
                meta.answers = 1;
            } else if (meta.rule != NC_REPLACE) {
                meta.sends = SEND_NOTHING;
                meta.outcome = NC_BLOCKED;
            }
        }
    }
}

#endif
