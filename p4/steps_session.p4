// SPDX-License-Identifier: Apache-2.0
// Part of State: the steps of sessions, behind the search for the session's entry.
                if (meta.step == STEP_RECORD) {
                    if (meta.has_entry == 1) {
                        if (hdr.chain.seq > hdr.state.seq) {
                            meta.records = 1;
                            hdr.state.answer = hdr.chain.version;
                            hdr.state.result = hdr.chain.operand;
                            meta.status = hdr.base.detail;
                        }
                    }
                } else if (meta.step == STEP_FREE) {
                    if (meta.has_entry == 1 && hdr.state.seq == hdr.chain.seq) {
                        hdr.state.used = hdr.state.used - 1;
                        session_entries_used.write(0, hdr.state.used);
                        hdr.state.scratch = hdr.state.entry - hdr.state.slot;
                        if (hdr.state.scratch == 0) {
                            session_id0.write(hdr.state.slot, 0);
                            session_shard0.write(hdr.state.slot, 0);
                        } else if (hdr.state.scratch == NQ_SESSION_SLOTS) {
                            session_id1.write(hdr.state.slot, 0);
                            session_shard1.write(hdr.state.slot, 0);
                        } else if (hdr.state.scratch == 2 * NQ_SESSION_SLOTS) {
                            session_id2.write(hdr.state.slot, 0);
                            session_shard2.write(hdr.state.slot, 0);
                        } else {
                            session_id3.write(hdr.state.slot, 0);
                            session_shard3.write(hdr.state.slot, 0);
                        }
                    }
                }
