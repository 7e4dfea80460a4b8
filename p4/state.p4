// SPDX-License-Identifier: Apache-2.0
// A node's state of objects and sessions, and the rules between the first read of a register and the last write.
// There is no table between these: a target that runs many packets at once may switch to another packet at a table.
// Without a table, these instructions are one atomic step.
#ifndef NQ_STATE_P4
#define NQ_STATE_P4

#include "headers.p4"
#include "read.p4"
#include "write.p4"
#include "update.p4"
#include "steps.p4"

control State(inout headers_t hdr, inout meta_t meta) {
    Register<bit<64>, bit<32>>(NQ_OBJECTS) object_version;
    Register<bit<64>, bit<32>>(NQ_OBJECTS) object_committed;
    Register<bit<16>, bit<32>>(NQ_OBJECTS) object_bytes;
    Register<bit<32>, bit<32>>(NQ_OBJECTS) object_epoch;
    NQ_VALUE_REGISTERS(NQ_OBJECTS)
    NQ_COUNTER(NQ_OBJECTS) object_reads;
    NQ_COUNTER(NQ_OBJECTS) object_writes;

    // A session is in one of four ways of its slot; a free way has session 0.
    Register<bit<64>, bit<64>>(NQ_SESSION_SLOTS) session_id0;
    Register<bit<64>, bit<64>>(NQ_SESSION_SLOTS) session_id1;
    Register<bit<64>, bit<64>>(NQ_SESSION_SLOTS) session_id2;
    Register<bit<64>, bit<64>>(NQ_SESSION_SLOTS) session_id3;
    Register<bit<16>, bit<64>>(NQ_SESSION_SLOTS) session_shard0;
    Register<bit<16>, bit<64>>(NQ_SESSION_SLOTS) session_shard1;
    Register<bit<16>, bit<64>>(NQ_SESSION_SLOTS) session_shard2;
    Register<bit<16>, bit<64>>(NQ_SESSION_SLOTS) session_shard3;
    Register<bit<64>, bit<64>>(NQ_SESSION_ENTRIES) session_seq;
    Register<bit<64>, bit<64>>(NQ_SESSION_ENTRIES) session_version;
    Register<bit<64>, bit<64>>(NQ_SESSION_ENTRIES) session_result;
    Register<bit<64>, bit<64>>(NQ_SESSION_ENTRIES) session_key;
    Register<bit<8>, bit<64>>(NQ_SESSION_ENTRIES) session_op;
    Register<bit<16>, bit<64>>(NQ_SESSION_ENTRIES) session_status;
    Register<bit<32>, bit<32>>(1) session_entries_used;
    // The last sessions that got an entry, by the number of entries made before it.
    Register<bit<64>, bit<64>>(NQ_SESSION_ENTRIES) made_session;
    Register<bit<16>, bit<64>>(NQ_SESSION_ENTRIES) made_shard;
    Register<bit<64>, bit<32>>(1) entries_made;

    Register<bit<64>, bit<32>>(65536) lease;       // the end of each shard's lease, or LEASE_OF_NODE
    Register<bit<64>, bit<32>>(1) node_lease;      // the end of the lease of shards that have none of their own
    Register<bit<8>, bit<32>>(1) objects_full;     // the control plane has no place for another key
    NQ_COUNTER(65536) shard_reads;
    NQ_COUNTER(65536) shard_writes;

    Read() read;
    Accept() accept;
    Repeat() repeat;
    Order() order;
    Update() update;
    Acknowledge() acknowledge;
    AnswerStep() answer_step;

    action object(bit<32> index) {
        meta.found = 1;
        meta.object = index;
    }
    action none() {
        meta.found = 0;
        meta.object = 0;
    }
    // Keys with a place, which the control plane assigns.
    table objects {
        key = {
            hdr.base.key_hi: exact;
            hdr.base.key_lo: exact;
        }
        actions = { object; none; }
        default_action = none();
        size = NQ_OBJECTS;
    }

    action use_entry(bit<64> way) {
        meta.has_entry = 1;
        hdr.state.entry = hdr.state.slot + way;
    }

    apply {
        objects.apply();
        if (meta.step != STEP_NONE) {
            meta.found = 0;
            if (meta.step == STEP_READ || meta.step == STEP_MERGE || meta.step == STEP_CLEAR) {
                meta.found = 1;
                meta.object = hdr.base.epoch;
            }
        }

        NQ_READ(hdr.state.lease, lease, (bit<32>) hdr.base.shard);
        if (hdr.state.lease == LEASE_OF_NODE) {
            NQ_READ(hdr.state.lease, node_lease, 0);
        }
        hdr.state.version = 0;
        hdr.state.committed = 0;
        hdr.state.bytes = 0;
        hdr.state.seq = 0;
        hdr.state.first = 0;
        if (meta.found == 1) {
            NQ_READ(hdr.state.version, object_version, meta.object);
            NQ_READ(hdr.state.committed, object_committed, meta.object);
            NQ_READ(hdr.state.bytes, object_bytes, meta.object);
            NQ_READ(hdr.state.first, value0, meta.object);
        } else {
            NQ_READ(meta.full, objects_full, 0);
        }
        if (meta.learner == 0) {
            if (hdr.platform.now < hdr.state.lease) {
                meta.permitted = 1;
            }
        }
        // All that an active tail holds is committed (C2).
        if (hdr.state.version == hdr.state.committed || (meta.tail == 1 && meta.state == STATE_ACTIVE)) {
            meta.clean = 1;
        }
        if (hdr.state.version == 0 || hdr.state.bytes == BYTES_TOMBSTONE) {
            meta.absent = 1;
        }

        if (meta.step != STEP_NONE) {
#include "steps_before.p4"
        } else if (meta.op == NQ_OP_READ) {
            read.apply(hdr, meta);
        } else if (hdr.base.op <= NQ_OP_FORWARD) {
            accept.apply(hdr, meta);
        } else if (hdr.base.op == NQ_OP_UPDATE) {
            if (meta.value_bytes > meta.cell_bytes) {
                meta.outcome = NQ_OUTCOME_TOO_LARGE;
            }
        } else {
            acknowledge.apply(hdr, meta);
        }

        if (meta.outcome == OPEN) {
            // The session.
            // Mixed, because sessions may differ in any of their bits.
            hdr.state.scratch = (bit<64>) hdr.base.shard;
            hdr.state.scratch = hdr.state.scratch << 40;
            hdr.state.sum = hdr.chain.session + hdr.state.scratch;
            hdr.state.scratch = hdr.state.sum << 21;
            hdr.state.sum = hdr.state.sum + hdr.state.scratch;
            hdr.state.scratch = hdr.state.sum >> 35;
            hdr.state.sum = hdr.state.sum ^ hdr.state.scratch;
            hdr.state.scratch = hdr.state.sum << 4;
            hdr.state.sum = hdr.state.sum + hdr.state.scratch;
            hdr.state.scratch = hdr.state.sum >> 15;
            hdr.state.sum = hdr.state.sum ^ hdr.state.scratch;
            hdr.state.scratch = (bit<64>) meta.slot_mask;
            hdr.state.slot = hdr.state.sum & hdr.state.scratch;
            NQ_READ(hdr.state.session0, session_id0, hdr.state.slot);
            NQ_READ(hdr.state.session1, session_id1, hdr.state.slot);
            NQ_READ(hdr.state.session2, session_id2, hdr.state.slot);
            NQ_READ(hdr.state.session3, session_id3, hdr.state.slot);
            NQ_READ(hdr.state.shard0, session_shard0, hdr.state.slot);
            NQ_READ(hdr.state.shard1, session_shard1, hdr.state.slot);
            NQ_READ(hdr.state.shard2, session_shard2, hdr.state.slot);
            NQ_READ(hdr.state.shard3, session_shard3, hdr.state.slot);
            NQ_READ(hdr.state.used, session_entries_used, 0);
            if (hdr.state.session0 == hdr.chain.session && hdr.state.shard0 == hdr.base.shard) {
                use_entry(0);
            } else if (hdr.state.session1 == hdr.chain.session && hdr.state.shard1 == hdr.base.shard) {
                use_entry(NQ_SESSION_SLOTS);
            } else if (hdr.state.session2 == hdr.chain.session && hdr.state.shard2 == hdr.base.shard) {
                use_entry(2 * NQ_SESSION_SLOTS);
            } else if (hdr.state.session3 == hdr.chain.session && hdr.state.shard3 == hdr.base.shard) {
                use_entry(3 * NQ_SESSION_SLOTS);
            } else if (meta.step == STEP_NONE || meta.step == STEP_RECORD) {
                if (hdr.state.used < meta.max_entries) {
                    if (hdr.state.session0 == 0) {
                        use_entry(0);
                        session_id0.write(hdr.state.slot, hdr.chain.session);
                        session_shard0.write(hdr.state.slot, hdr.base.shard);
                    } else if (hdr.state.session1 == 0) {
                        use_entry(NQ_SESSION_SLOTS);
                        session_id1.write(hdr.state.slot, hdr.chain.session);
                        session_shard1.write(hdr.state.slot, hdr.base.shard);
                    } else if (hdr.state.session2 == 0) {
                        use_entry(2 * NQ_SESSION_SLOTS);
                        session_id2.write(hdr.state.slot, hdr.chain.session);
                        session_shard2.write(hdr.state.slot, hdr.base.shard);
                    } else if (hdr.state.session3 == 0) {
                        use_entry(3 * NQ_SESSION_SLOTS);
                        session_id3.write(hdr.state.slot, hdr.chain.session);
                        session_shard3.write(hdr.state.slot, hdr.base.shard);
                    }
                    if (meta.has_entry == 1) {
                        hdr.state.used = hdr.state.used + 1;
                        session_entries_used.write(0, hdr.state.used);
                        NQ_READ(hdr.state.sum, entries_made, 0);
                        hdr.state.scratch = hdr.state.sum & (NQ_SESSION_ENTRIES - 1);
                        made_session.write(hdr.state.scratch, hdr.chain.session);
                        made_shard.write(hdr.state.scratch, hdr.base.shard);
                        hdr.state.sum = hdr.state.sum + 1;
                        entries_made.write(0, hdr.state.sum);
                        session_seq.write(hdr.state.entry, 0);
                        session_version.write(hdr.state.entry, 0);
                        session_result.write(hdr.state.entry, 0);
                        session_key.write(hdr.state.entry, 0);
                        session_op.write(hdr.state.entry, 0);
                        session_status.write(hdr.state.entry, 0);
                    }
                }
            }
            if (meta.has_entry == 1) {
                NQ_READ(hdr.state.seq, session_seq, hdr.state.entry);
                NQ_READ(hdr.state.last, session_version, hdr.state.entry);
                NQ_READ(hdr.state.result, session_result, hdr.state.entry);
                NQ_READ(hdr.state.key_lo, session_key, hdr.state.entry);
                NQ_READ(hdr.state.noted_op, session_op, hdr.state.entry);
                NQ_READ(hdr.state.noted, session_status, hdr.state.entry);
            }

            if (meta.step != STEP_NONE) {
#include "steps_session.p4"
            } else if (hdr.base.op == NQ_OP_UPDATE) {
                update.apply(hdr, meta);
            } else if (meta.has_entry == 0) {
                meta.outcome = NQ_OUTCOME_FULL;
                meta.sends = SEND_REPLY;
                meta.status = NQ_STATUS_FULL;
            } else if (hdr.chain.seq < hdr.state.seq) {
                meta.outcome = NQ_OUTCOME_OLD_SEQ;
            } else if (hdr.chain.seq == hdr.state.seq) {
                repeat.apply(hdr, meta);
            } else {
                order.apply(hdr, meta);
            }
        }

        if (meta.wants_object == 1 && meta.found == 0 && meta.outcome != NQ_OUTCOME_FULL && meta.sends == SEND_NOTHING) {
            // Only the session's entry was made; the frame leaves unchanged.
            if (hdr.base.op != NQ_OP_UPDATE && meta.op == NQ_OP_ADD) {
                hdr.w0.setInvalid();
            }
            meta.sends = SEND_TO_CPU;
            meta.outcome = OPEN;
            hdr.platform.reason = CPU_OBJECT;
        } else {
            if (meta.applies == 1) {
                hdr.state.version = hdr.state.answer;
                hdr.state.bytes = meta.value_bytes;
                if (meta.op == NQ_OP_DELETE) {
                    hdr.state.bytes = BYTES_TOMBSTONE;
                }
                object_version.write(meta.object, hdr.state.version);
                object_bytes.write(meta.object, hdr.state.bytes);
                object_epoch.write(meta.object, 0);
                NQ_STORE_VALUE
                if (meta.step == STEP_NONE) {
                    object_writes.count(meta.object);
                    shard_writes.count((bit<32>) hdr.base.shard);
                }
            }
            if (meta.records == 1) {
                session_seq.write(hdr.state.entry, hdr.chain.seq);
                session_version.write(hdr.state.entry, hdr.state.answer);
                session_key.write(hdr.state.entry, hdr.base.key_lo);
                session_op.write(hdr.state.entry, meta.op);
                session_status.write(hdr.state.entry, meta.status);
                if (meta.applies == 0 && hdr.base.op != NQ_OP_UPDATE) {
                    hdr.state.result = 0;
                }
                session_result.write(hdr.state.entry, hdr.state.result);
            }
            // W7: a version that the tail accepts is committed.
            if (meta.hands == 1) {
                if (meta.tail == 0) {
                    meta.sends = SEND_UPDATE;
                } else {
                    meta.commits = 1;
                    hdr.state.mark = hdr.state.version;
                    meta.sends = SEND_RELAY;
                    if (meta.copies != 0) {
                        meta.sends = SEND_COPIES;
                    }
                    if (meta.head == 1) {
                        meta.sends = SEND_REPLY;
                        meta.status = NQ_STATUS_OK;
                        if (meta.op != NQ_OP_ADD) {
                            meta.shows = 0;
                        }
                    }
                }
            }
            if (meta.commits == 1 && meta.found == 1) {
                if (hdr.state.mark > hdr.state.committed) {
                    hdr.state.committed = hdr.state.mark;
                    object_committed.write(meta.object, hdr.state.committed);
                    // W13
                    if (hdr.state.committed == hdr.state.version) {
                        object_epoch.write(meta.object, meta.epoch);
                    }
                }
            }
            if (meta.counts_read == 1) {
                shard_reads.count((bit<32>) hdr.base.shard);
                if (meta.found == 1) {
                    object_reads.count(meta.object);
                }
            }
            if (meta.shows == 1) {
                NQ_REMOVE_VALUE
                meta.value_bytes = hdr.state.bytes & BYTES_LENGTH;
                NQ_SHOW_VALUE
            }
        }
        if (meta.step != STEP_NONE) {
            answer_step.apply(hdr, meta);
        }
    }
}

#endif
