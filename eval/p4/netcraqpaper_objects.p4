// SPDX-License-Identifier: Apache-2.0
// The registers, and Algorithm 1 over them.
#ifndef NP_OBJECTS_P4
#define NP_OBJECTS_P4

#include "netcraqpaper_headers.p4"

control Objects(inout headers_t hdr, inout meta_t meta) {
    Register<bit<64>, bit<64>>(NP_CELLS) store_high;
    Register<bit<64>, bit<64>>(NP_CELLS) store_low;
    Register<bit<64>, bit<64>>(NP_OBJECTS) read_index;
    Register<bit<64>, bit<64>>(NP_OBJECTS) write_index;

    action store() {
        store_high.write(hdr.state.cell, hdr.state.high);
        store_low.write(hdr.state.cell, hdr.state.low);
    }

    apply {
        hdr.state.cell = hdr.state.key << NP_VERSION_BITS;
        meta.stores = 0;
        if (hdr.state.op == NP_READ) {
            hdr.state.read_index = read_index.read(hdr.state.key);
            meta.outcome = NP_CLEAN_READ;
            if (hdr.state.read_index != 0) {
                meta.outcome = NP_DIRTY_READ;
                if (meta.is_tail == 0) {
                    meta.outcome = NP_FORWARDED;
                    hdr.ipv4.destination = meta.tail;
                }
            }
            if (meta.outcome != NP_FORWARDED) {
                hdr.state.cell = hdr.state.cell + hdr.state.read_index;
                hdr.state.high = store_high.read(hdr.state.cell);
                hdr.state.low = store_low.read(hdr.state.cell);
                hdr.state.op = NP_READ_REPLY;
                meta.answers = 1;
            }
            meta.sends = SEND_CHANGED;
        } else if (hdr.state.op == NP_WRITE) {
            hdr.state.write_index = write_index.read(hdr.state.key);
            meta.outcome = NP_OVERFLOW;
            if (hdr.state.write_index == 0) {
                meta.outcome = NP_CLEAN_WRITE;
                meta.stores = 1;
                hdr.state.read_index = 0;
                hdr.state.write_index = 1;
            } else if (hdr.state.write_index < hdr.state.versions) {
                meta.outcome = NP_DIRTY_WRITE;
                meta.stores = 1;
                hdr.state.cell = hdr.state.cell + hdr.state.write_index;
                hdr.state.read_index = hdr.state.write_index;
                hdr.state.write_index = hdr.state.write_index + 1;
            }
            if (meta.stores == 1) {
                if (meta.is_tail == 0) {
                    meta.sends = SEND_CHANGED;
                    hdr.ipv4.destination = meta.next;
                } else {
                    meta.outcome = NP_COMMITTED;
                    meta.sends = SEND_AGAIN;
                    meta.answers = 1;
                    hdr.platform.copies = meta.copies;
                }
            }
        } else {
            meta.outcome = NP_ACKNOWLEDGED;
            meta.stores = 1;
        }
        if (meta.stores == 1) {
            store();
            if (hdr.state.op == NP_ACKNOWLEDGE || meta.is_tail == 1) {
                hdr.state.cell = hdr.state.key << NP_VERSION_BITS;
                store(); // what was appended stays behind it
                hdr.state.read_index = 0;
                hdr.state.write_index = 1;
            }
            read_index.write(hdr.state.key, hdr.state.read_index);
            write_index.write(hdr.state.key, hdr.state.write_index);
            hdr.state.op = NP_ACKNOWLEDGE; // if an answer leaves
        }
    }
}

#endif
