// SPDX-License-Identifier: Apache-2.0
// Part of State: the steps of objects and of the node, each of which is without a session.
            meta.outcome = NQ_OUTCOME_APPLIED;
            if (meta.step == STEP_READ) {
                NQ_READ(hdr.chain.client_lo_1, object_epoch, meta.object);
                meta.shows = 1;
            } else if (meta.step == STEP_MERGE) {
                if (hdr.chain.version > hdr.state.version) {
                    meta.applies = 1;
                    hdr.state.answer = hdr.chain.version;
                }
                meta.commits = 1;
                hdr.state.mark = hdr.chain.operand;
                meta.epoch = hdr.chain.client_lo_1;
            } else if (meta.step == STEP_CLEAR) {
                object_version.write(meta.object, 0);
                object_committed.write(meta.object, 0);
                object_bytes.write(meta.object, 0);
                object_epoch.write(meta.object, 0);
            } else if (meta.step == STEP_LEASE) {
                lease.write((bit<32>) hdr.base.shard, hdr.chain.version);
            } else if (meta.step == STEP_NODE) {
                node_lease.write(0, hdr.chain.version);
            } else if (meta.step == STEP_FULL) {
                objects_full.write(0, hdr.chain.client_op);
            } else if (meta.step == STEP_MADE) {
                hdr.state.scratch = hdr.chain.operand & (NQ_SESSION_ENTRIES - 1);
                NQ_READ(hdr.chain.session, made_session, hdr.state.scratch);
                NQ_READ(hdr.base.shard, made_shard, hdr.state.scratch);
                NQ_READ(hdr.chain.version, entries_made, 0);
                NQ_READ(hdr.base.epoch, session_entries_used, 0);
            } else {
                meta.outcome = OPEN;
            }
