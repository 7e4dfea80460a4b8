// SPDX-License-Identifier: Apache-2.0
// Steps that the control plane asks for by frames through the CPU port, where its server has no registers. A frame is
// an UPDATE to the node's own address; its flags name the step, and its fields are those of the message where there are
// such. The answer is the same frame, back by the CPU port. A step may be repeated: it does nothing the second time.
#ifndef NQ_STEPS_P4
#define NQ_STEPS_P4

#include "headers.p4"

// The reason of a frame to the CPU port that answers a step.
const bit<8> CPU_ANSWER = 4;

const bit<8> STEP_NONE = 0;
// Of the object in the place that the field epoch has.
const bit<8> STEP_READ = 1;   // version, operand: the committed version, detail: its bytes, client_lo_1: its epoch, value
const bit<8> STEP_MERGE = 2;  // take over what is newer, of such fields
const bit<8> STEP_CLEAR = 3;
// Of the node.
const bit<8> STEP_LEASE = 4;  // that of the shard ends at version, or is LEASE_OF_NODE
const bit<8> STEP_NODE = 5;   // the node's lease ends at version
const bit<8> STEP_FULL = 6;   // client_op: whether there is no place for another key
// Of the sessions. STEP_MADE has the number of entries made before, and so asks for one that is in made_session yet.
const bit<8> STEP_MADE = 7;   // operand: the number; the answer has its session and shard, version: how many were made,
                              // epoch: how many are there
// Of the session in the shard. In the answer, hops is 1 if it has an entry.
const bit<8> STEP_FIND = 8;   // seq, version, operand: the result, key_lo, client_op, detail: the status
const bit<8> STEP_RECORD = 9; // such fields, if seq is newer
const bit<8> STEP_FREE = 10;  // if its seq is the one that the frame has

// The fields of a step's answer.
control AnswerStep(inout headers_t hdr, inout meta_t meta) {
    apply {
        meta.sends = SEND_TO_CPU;
        hdr.platform.reason = CPU_ANSWER;
        if (meta.step == STEP_READ) {
            hdr.chain.version = hdr.state.version;
            hdr.chain.operand = hdr.state.committed;
            hdr.base.detail = hdr.state.bytes;
        } else if (meta.step == STEP_FIND) {
            hdr.chain.seq = hdr.state.seq;
            hdr.chain.version = hdr.state.last;
            hdr.chain.operand = hdr.state.result;
            hdr.base.key_lo = hdr.state.key_lo;
            hdr.chain.client_op = hdr.state.noted_op;
            hdr.base.detail = hdr.state.noted;
        }
        if (meta.step >= STEP_FIND) {
            hdr.base.hops = meta.has_entry;
        }
    }
}

#endif
