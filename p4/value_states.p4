// SPDX-License-Identifier: Apache-2.0
// Part of a parser: a value of up to NQ_CELL_BYTES, from the state short_value to the state value_end of the program.
    state short_value {
        meta.words = meta.value_bytes >> 3;
        meta.part4 = meta.value_bytes & 4;
        meta.part2 = meta.value_bytes & 2;
        meta.part1 = meta.value_bytes & 1;
        transition select(meta.words) {
            0: four;
            default: word0;
        }
    }
    state word0 {
        packet.extract(hdr.w0);
        transition select(meta.words) {
            1: four;
            default: word1;
        }
    }
    state word1 {
        packet.extract(hdr.w1);
        transition select(meta.words) {
            2: four;
            default: word2;
        }
    }
    state word2 {
        packet.extract(hdr.w2);
        transition select(meta.words) {
            3: four;
            default: word3;
        }
    }
    state word3 {
        packet.extract(hdr.w3);
        transition select(meta.words) {
            4: four;
            default: word4;
        }
    }
    state word4 {
        packet.extract(hdr.w4);
        transition select(meta.words) {
            5: four;
            default: word5;
        }
    }
    state word5 {
        packet.extract(hdr.w5);
        transition select(meta.words) {
            6: four;
            default: word6;
        }
    }
    state word6 {
        packet.extract(hdr.w6);
        transition select(meta.words) {
            7: four;
            default: word7;
        }
    }
    state word7 {
        packet.extract(hdr.w7);
        transition four;
    }
    state four {
        transition select(meta.part4) {
            0: two;
            default: take_four;
        }
    }
    state take_four {
        packet.extract(hdr.t4);
        transition two;
    }
    state two {
        transition select(meta.part2) {
            0: one;
            default: take_two;
        }
    }
    state take_two {
        packet.extract(hdr.t2);
        transition one;
    }
    state one {
        transition select(meta.part1) {
            0: value_end;
            default: take_one;
        }
    }
    state take_one {
        packet.extract(hdr.t1);
        transition value_end;
    }
