package member

import (
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/netcraq/netcraq/internal/member/core"
)

// recordMark begins a record in a client URL of a member. A record is the URL's fragment, which etcd's clients ignore in http
// and https URLs. The version of the member's program follows it, after versionMark.
const (
	recordMark  = "#netcraq."
	versionMark = "@"
)

// mostVersionBytes is the greatest length of a version.
const mostVersionBytes = 64

// Said is what a member says in its client URLs. Plain etcd says nothing.
type Said struct {
	Record  core.Record
	Version string // of the member's program; empty: it names none
	Unknown bool   // there is a record, which this version cannot read
}

// stripAll takes the records out of a list of members for clients.
func stripAll(members []*pb.Member) {
	for _, m := range members {
		m.ClientURLs = withoutRecord(m.ClientURLs)
	}
}

func withoutRecord(urls []string) []string {
	plain := slices.Clone(urls)
	for i, url := range plain {
		plain[i], _, _ = strings.Cut(url, recordMark)
	}
	return plain
}

// SaidIn returns what a member says. A record that this version cannot read counts as plain.
func SaidIn(urls []string) (s Said) {
	for _, url := range urls {
		if at := strings.Index(url, recordMark); at >= 0 {
			record, version, _ := strings.Cut(url[at+1:], versionMark)
			r, err := core.ParseRecord(record) // plain with an error
			s.Record, s.Unknown = r, err != nil
			if isVersion(version) {
				s.Version = version
			}
			return s
		}
	}
	return s
}

// isVersion reports whether a text may name a version: it is short, and needs no quoting in an address or a terminal.
func isVersion(text string) bool {
	return text != "" && len(text) <= mostVersionBytes && !strings.ContainsFunc(text, func(r rune) bool {
		letter := 'a' <= r|0x20 && r|0x20 <= 'z'
		return !letter && !('0' <= r && r <= '9') && !strings.ContainsRune(".+-_()", r)
	})
}

// WithRecord returns a member's client URLs with another record, and the version of the member's program.
func WithRecord(urls []string, r core.Record, version string) []string {
	urls = withoutRecord(urls)
	if len(urls) == 0 || r.Plain() {
		return urls
	}
	i := max(0, slices.IndexFunc(urls, func(url string) bool { return strings.HasPrefix(url, "http") }))
	urls[i] += "#" + r.String()
	if isVersion(version) {
		urls[i] += versionMark + version
	}
	return urls
}
