package grpcserver

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// request is the header of a call.
type request struct {
	method   string // as "/service/method"; the path of a page
	timeout  time.Duration
	encoding string // of messages that are compressed
	md       metadata.MD
	refused  *refusal // what answers a request that is no call of gRPC
	bytes    int      // decoded
	length   int      // of the body; negative: not told

	malformed bool // HTTP/2 does not allow it: the call is reset
	trailers  bool // it may be the end of a request: it has no pseudo-header fields

	page             bool   // it is a well-formed request of HTTP and no call of gRPC
	verb, kind, host string // of a page
}

// headers decodes the headers of a connection's calls.
type headers struct {
	decoder *hpack.Decoder
	fields  []hpack.HeaderField // of the block that is decoded now
	bytes   int                 // of it
	block   []byte              // encoded
	// known are blocks that only name entries of the decoder's tables, since these changed last: they mean the same again.
	known map[string]*request
}

// maxKnownBlocks is how many blocks are remembered, of up to maxKnownBytes decoded.
const (
	maxKnownBlocks = 32
	maxKnownBytes  = 4 << 10
)

// tableBytes is the size of the decoder's table, HTTP/2's default.
const tableBytes = 4096

func (h *headers) init() {
	h.decoder = hpack.NewDecoder(tableBytes, func(f hpack.HeaderField) {
		if h.bytes += int(f.Size()); h.bytes <= maxHeaderBytes {
			h.fields = append(h.fields, f)
		}
	})
	h.decoder.SetMaxStringLength(2 * maxBlockBytes) // Huffman's code makes 8 bits of 5
	h.known = make(map[string]*request)
}

// add takes a part of a block.
func (h *headers) add(part []byte) error {
	if len(h.block)+len(part) > maxBlockBytes {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	h.block = append(h.block, part...)
	return nil
}

// end decodes the block. Every block has to be decoded, since it changes the table.
func (h *headers) end() (*request, error) {
	block := h.block
	if h.block = block[:0]; cap(block) > maxKept {
		h.block = nil
	}
	if r := h.known[string(block)]; r != nil {
		return r, nil
	}
	h.fields, h.bytes = h.fields[:0], 0
	_, err := h.decoder.Write(block)
	if err == nil {
		err = h.decoder.Close()
	}
	if err != nil {
		return nil, http2.ConnectionError(http2.ErrCodeCompression)
	}
	r := h.parse()
	again := indexed(block) && r.bytes <= maxKnownBytes
	if !again || len(h.known) >= maxKnownBlocks {
		clear(h.known)
	}
	if again {
		h.known[string(block)] = r
	}
	if clear(h.fields); cap(h.fields) > maxKeptFields {
		h.fields = nil
	}
	return r, nil
}

// maxKeptFields is how many fields the buffer of an idle connection has.
const maxKeptFields = 128

// indexed reports whether a block consists of indices of one byte.
func indexed(block []byte) bool {
	for _, b := range block {
		if b < 0x80 || b == 0xff {
			return false
		}
	}
	return true
}

// answers encodes the headers of a connection's answers. Two fields enter the client's table: the content type with
// the first answer, then the status of a call that succeeded. All others are literals.
type answers struct {
	literal              bool // the client's table is too small
	shrink               bool // to be told with the next block
	typeKnown, okayKnown bool
}

// Indices of HPACK's static table, and of the newest entry of the dynamic one.
const (
	indexStatus200   = 8
	indexContentType = 31
	indexNewest      = 62
)

// Representations of fields.
const (
	asIndex     = 0x80
	addLiteral  = 0x40
	justLiteral = 0x00
)

// tableSize takes the size of the table that the client allows.
func (a *answers) tableSize(n uint32) {
	if n < tableBytes && !a.literal {
		*a = answers{literal: true, shrink: true}
	}
}

// begin begins a block.
func (a *answers) begin(b []byte) []byte {
	if a.shrink {
		a.shrink = false
		b = append(b, 0x20) // the table's size is 0
	}
	return b
}

// header appends the beginning of every answer's header.
func (a *answers) header(b []byte) []byte {
	b = append(a.begin(b), asIndex|indexStatus200)
	switch {
	case a.literal:
		return appendField(b, justLiteral, "content-type", grpcType)
	case a.okayKnown:
		return append(b, asIndex|(indexNewest+1))
	case a.typeKnown:
		return append(b, asIndex|indexNewest)
	}
	a.typeKnown = true
	return appendString(append(b, addLiteral|indexContentType), grpcType)
}

// okay appends the trailer of a call that succeeded. A header came before it.
func (a *answers) okay(b []byte) []byte {
	b = a.begin(b)
	switch {
	case a.literal:
		return appendField(b, justLiteral, statusField, "0")
	case a.okayKnown:
		return append(b, asIndex|indexNewest)
	}
	a.okayKnown = true
	return appendField(b, addLiteral, statusField, "0")
}

// Fields of an answer's status.
const (
	statusField   = "grpc-status"
	encodingField = "grpc-encoding"
	messageField  = "grpc-message"
	detailsField  = "grpc-status-details-bin"
)

// status appends the status of a call that failed.
func (a *answers) status(b []byte, st *status.Status) []byte {
	b = a.begin(b)
	if st.Code() == codes.OK {
		return a.okay(b)
	}
	b = appendField(b, justLiteral, statusField, strconv.Itoa(int(st.Code())))
	b = appendField(b, justLiteral, messageField, escape(st.Message()))
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		if details, err := proto.Marshal(p); err == nil {
			b = appendField(b, justLiteral, detailsField, base64.RawStdEncoding.EncodeToString(details))
		}
	}
	return b
}

// appendMD appends metadata of a handler. Fields of gRPC's own are not its to set.
func appendMD(b []byte, md metadata.MD) []byte {
	for name, values := range md {
		if reserved[name] || strings.HasPrefix(name, ":") {
			continue
		}
		for _, v := range values {
			if strings.HasSuffix(name, binarySuffix) {
				v = base64.RawStdEncoding.EncodeToString([]byte(v))
			}
			b = appendField(b, justLiteral, name, v)
		}
	}
	return b
}

var reserved = map[string]bool{
	"content-type": true, "te": true, encodingField: true, statusField: true, messageField: true, detailsField: true,
}

func appendField(b []byte, kind byte, name, value string) []byte {
	return appendString(appendString(append(b, kind), name), value)
}

// appendString appends a string without Huffman's code.
func appendString(b []byte, s string) []byte {
	const prefix = 0x7f
	n := len(s)
	if n < prefix {
		return append(append(b, byte(n)), s...)
	}
	b = append(b, prefix)
	for n -= prefix; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(append(b, byte(n)), s...)
}

// escape encodes a status message: percent signs and all that is not printable ASCII.
func escape(s string) string {
	plain := func(c byte) bool { return c >= ' ' && c <= '~' && c != '%' }
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		if plain(s[i]) {
			b = append(b, s[i])
		} else {
			b = fmt.Appendf(b, "%%%02X", s[i])
		}
	}
	return string(b)
}
