// SPDX-License-Identifier: Apache-2.0
// A value of up to NQ_CELL_BYTES: in headers, and in registers of which meta.object is the index.
#ifndef NQ_VALUE_P4
#define NQ_VALUE_P4

// The longest value a cell has room for.
const bit<16> NQ_CELL_BYTES = 64;

// A value, cut into words and a rest of 4, 2 and 1 bytes.
header word_h { bit<64> word; }
header four_h { bit<32> part; }
header two_h { bit<16> part; }
header one_h { bit<8> part; }

#define NQ_VALUE_HEADERS \
    word_h w0; \
    word_h w1; \
    word_h w2; \
    word_h w3; \
    word_h w4; \
    word_h w5; \
    word_h w6; \
    word_h w7; \
    four_h t4; \
    two_h t2; \
    one_h t1;

#define NQ_VALUE_REGISTERS(objects) \
    Register<bit<64>, bit<32>>(objects) value0; \
    Register<bit<64>, bit<32>>(objects) value1; \
    Register<bit<64>, bit<32>>(objects) value2; \
    Register<bit<64>, bit<32>>(objects) value3; \
    Register<bit<64>, bit<32>>(objects) value4; \
    Register<bit<64>, bit<32>>(objects) value5; \
    Register<bit<64>, bit<32>>(objects) value6; \
    Register<bit<64>, bit<32>>(objects) value7; \
    Register<bit<32>, bit<32>>(objects) value_four; \
    Register<bit<16>, bit<32>>(objects) value_two; \
    Register<bit<8>, bit<32>>(objects) value_one;

#define NQ_EMIT_VALUE \
    packet.emit(hdr.w0); \
    packet.emit(hdr.w1); \
    packet.emit(hdr.w2); \
    packet.emit(hdr.w3); \
    packet.emit(hdr.w4); \
    packet.emit(hdr.w5); \
    packet.emit(hdr.w6); \
    packet.emit(hdr.w7); \
    packet.emit(hdr.t4); \
    packet.emit(hdr.t2); \
    packet.emit(hdr.t1);

#define NQ_REMOVE_VALUE \
    hdr.w0.setInvalid(); \
    hdr.w1.setInvalid(); \
    hdr.w2.setInvalid(); \
    hdr.w3.setInvalid(); \
    hdr.w4.setInvalid(); \
    hdr.w5.setInvalid(); \
    hdr.w6.setInvalid(); \
    hdr.w7.setInvalid(); \
    hdr.t4.setInvalid(); \
    hdr.t2.setInvalid(); \
    hdr.t1.setInvalid();

// The headers into the registers.
#define NQ_STORE_WORD(w, values) if (hdr.w.isValid()) { values.write(meta.object, hdr.w.word); }
#define NQ_STORE_PART(t, values) if (hdr.t.isValid()) { values.write(meta.object, hdr.t.part); }
#define NQ_STORE_VALUE \
    NQ_STORE_WORD(w0, value0) \
    NQ_STORE_WORD(w1, value1) \
    NQ_STORE_WORD(w2, value2) \
    NQ_STORE_WORD(w3, value3) \
    NQ_STORE_WORD(w4, value4) \
    NQ_STORE_WORD(w5, value5) \
    NQ_STORE_WORD(w6, value6) \
    NQ_STORE_WORD(w7, value7) \
    NQ_STORE_PART(t4, value_four) \
    NQ_STORE_PART(t2, value_two) \
    NQ_STORE_PART(t1, value_one)

// The first meta.value_bytes of the registers into headers, all of which are invalid.
#define NQ_SHOW_WORD(n, w, values) \
    if (meta.words > n) { \
        hdr.w.setValid(); \
        NQ_READ(hdr.w.word, values, meta.object); \
    }
#define NQ_SHOW_PART(bytes, t, values) \
    meta.words = meta.value_bytes & bytes; \
    if (meta.words != 0) { \
        hdr.t.setValid(); \
        NQ_READ(hdr.t.part, values, meta.object); \
    }
#define NQ_SHOW_VALUE \
    meta.words = meta.value_bytes >> 3; \
    NQ_SHOW_WORD(0, w0, value0) \
    NQ_SHOW_WORD(1, w1, value1) \
    NQ_SHOW_WORD(2, w2, value2) \
    NQ_SHOW_WORD(3, w3, value3) \
    NQ_SHOW_WORD(4, w4, value4) \
    NQ_SHOW_WORD(5, w5, value5) \
    NQ_SHOW_WORD(6, w6, value6) \
    NQ_SHOW_WORD(7, w7, value7) \
    NQ_SHOW_PART(4, t4, value_four) \
    NQ_SHOW_PART(2, t2, value_two) \
    NQ_SHOW_PART(1, t1, value_one)

#endif
