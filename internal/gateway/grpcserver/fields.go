package grpcserver

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// refusal is the answer to a request that is no call, as grpc-go gives it.
type refusal struct {
	http   int
	status *status.Status
}

// firstRefusal keeps the first of two.
func (r *request) refuse(http int, code codes.Code, format string, args ...any) {
	if r.refused == nil {
		r.refused = &refusal{http, status.Newf(code, format, args...)}
	}
}

const (
	grpcType = "application/grpc"
	// binarySuffix ends the names of fields whose values are encoded.
	binarySuffix = "-bin"
)

// ofConnection are fields that HTTP/2 does not allow.
var ofConnection = map[string]bool{
	"connection": true, "keep-alive": true, "proxy-connection": true, "transfer-encoding": true, "upgrade": true,
}

// parse interprets the fields of a block. What RFC 9113 forbids (sections 8.2 and 8.3) makes it malformed. What gRPC
// forbids is refused in the order and with the words of grpc-go.
func (h *headers) parse() *request {
	r := &request{md: make(metadata.MD), timeout: -1, length: -1, bytes: h.bytes, trailers: true}
	if h.bytes > maxHeaderBytes {
		r.refuse(http.StatusRequestHeaderFieldsTooLarge, codes.ResourceExhausted,
			"the header has %d bytes, more than %d", h.bytes, maxHeaderBytes)
	}
	var late *refusal // it comes behind what the method and the type are refused with
	regular := false
	var scheme string
	pseudo := map[string]*string{":method": &r.verb, ":path": &r.method, ":scheme": &scheme, ":authority": &r.host}
	seen := make(map[string]bool, len(pseudo))
	for _, f := range h.fields {
		if strings.HasPrefix(f.Name, ":") {
			to := pseudo[f.Name]
			if r.trailers = false; to == nil || seen[f.Name] || regular || !httpguts.ValidHeaderFieldValue(f.Value) {
				r.malformed = true
				continue
			}
			*to, seen[f.Name] = f.Value, true
			continue
		}
		regular = true
		if !validName(f.Name) || !httpguts.ValidHeaderFieldValue(f.Value) || ofConnection[f.Name] ||
			f.Name == "te" && f.Value != "trailers" {
			r.malformed = true
			continue
		}
		if err := r.add(f); err != nil && late == nil {
			late = &refusal{http.StatusBadRequest, status.New(codes.Internal, err.Error())}
		}
	}
	if h.bytes <= maxHeaderBytes && !r.trailers && (r.method == "" || r.verb == "" || scheme == "") {
		r.malformed = true
	}
	r.check(late)
	return r
}

// check refuses what is no call of gRPC, and finds out whether it is a page.
func (r *request) check(late *refusal) {
	host := len(r.md["host"])
	if r.host == "" && host > 0 {
		r.host = r.md["host"][0]
	}
	delete(r.md, "host")
	wellFormed := r.refused == nil && strings.HasPrefix(r.method, "/")
	if host > 1 {
		r.refuse(http.StatusBadRequest, codes.Internal,
			"num values of :authority: %v, num values of host: %v, both must only have 1 value as per HTTP/2 spec", 1, host)
	}
	if !isCall(r.kind) {
		r.page = wellFormed && !isMethod(r.method)
		r.refuse(http.StatusUnsupportedMediaType, codes.InvalidArgument, "invalid gRPC request content-type %q", r.kind)
	}
	if isCall(r.kind) && !strings.HasPrefix(r.method, "/") {
		r.refuse(http.StatusOK, codes.Unimplemented, "malformed method name: %q", r.method)
	}
	if late != nil && r.refused == nil {
		r.refused = late
	}
	if r.host == "" {
		r.refuse(http.StatusBadRequest, codes.Internal, "no host or :authority header present")
	}
	if r.verb != http.MethodPost {
		r.refuse(http.StatusMethodNotAllowed, codes.Internal,
			"Received a HEADERS frame with :method %q which should be POST", r.verb)
	}
	if r.compressed() && encoding.GetCompressor(r.encoding) == nil {
		r.refuse(http.StatusOK, codes.Unimplemented, "grpc: Decompressor is not installed for grpc-encoding %q", r.encoding)
	}
}

// compressed reports whether messages of the call, and so of its answer, may be compressed.
func (r *request) compressed() bool { return r.encoding != "" && r.encoding != encoding.Identity }

// validName reports whether a name is one of HTTP/2: without capitals.
func validName(name string) bool {
	if name == "" {
		return false
	}
	for i := range len(name) {
		if c := name[i]; 'A' <= c && c <= 'Z' || !httpguts.IsTokenRune(rune(c)) {
			return false
		}
	}
	return true
}

// isCall reports whether a content type is one of gRPC.
func isCall(kind string) bool {
	return kind == grpcType || strings.HasPrefix(kind, grpcType+"+") || strings.HasPrefix(kind, grpcType+";")
}

// isMethod reports whether a path is that of a method, "/package.Service/Method", and so of no page.
func isMethod(path string) bool {
	service, method, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return ok && strings.Contains(service, ".") && !strings.Contains(method, "/")
}

// add takes a field. The error is what is wrong with it for gRPC.
func (r *request) add(f hpack.HeaderField) (err error) {
	switch f.Name {
	case "te", "user-agent", "grpc-accept-encoding":
		return nil
	case "content-type":
		r.kind = f.Value
		return nil
	case encodingField:
		r.encoding = f.Value
		return nil
	case "grpc-timeout":
		if r.timeout, err = parseTimeout(f.Value); err != nil {
			return fmt.Errorf("malformed grpc-timeout: %w", err)
		}
		return nil
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 62)
		if err != nil || r.length >= 0 {
			r.malformed = true
			return nil
		}
		r.length = int(n)
	}
	value := f.Value
	if strings.HasSuffix(f.Name, binarySuffix) {
		b, err := decodeBinary(value)
		if err != nil {
			return fmt.Errorf("malformed binary metadata %q in header %q: %w", f.Value, f.Name, err)
		}
		value = string(b)
	}
	r.md[f.Name] = append(r.md[f.Name], value)
	return nil
}

// decodeBinary decodes a value with padding or without.
func decodeBinary(s string) ([]byte, error) {
	if len(s)%4 == 0 {
		return base64.StdEncoding.DecodeString(s)
	}
	return base64.RawStdEncoding.DecodeString(s)
}

var timeoutUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// maxTimeoutBytes is the length of 8 digits and a unit.
const maxTimeoutBytes = 9

// parseTimeout reads at most 8 digits and a unit. Its errors are grpc-go's.
func parseTimeout(s string) (time.Duration, error) {
	switch {
	case len(s) < 2:
		return 0, fmt.Errorf("transport: timeout string is too short: %q", s)
	case len(s) > maxTimeoutBytes:
		return 0, fmt.Errorf("transport: timeout string is too long: %q", s)
	case timeoutUnits[s[len(s)-1]] == 0:
		return 0, fmt.Errorf("transport: timeout unit is not recognized: %q", s)
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 64)
	unit := timeoutUnits[s[len(s)-1]]
	if n > uint64(1<<63-1)/uint64(unit) {
		return 1<<63 - 1, err
	}
	return time.Duration(n) * unit, err
}
