package member

import (
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/netcraq/netcraq/internal/member/core"
)

// recordMark begins a record in a client URL of a member. A record is the URL's fragment, which etcd's clients ignore in http
// and https URLs.
const recordMark = "#netcraq."

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

// RecordIn returns the record in a member's client URLs. It is plain if there is none that this release can read.
func RecordIn(urls []string) core.Record {
	for _, url := range urls {
		if at := strings.Index(url, recordMark); at >= 0 {
			r, _ := core.ParseRecord(url[at+1:]) // plain with an error
			return r
		}
	}
	return core.Record{}
}

// WithRecord returns a member's client URLs with another record.
func WithRecord(urls []string, r core.Record) []string {
	urls = withoutRecord(urls)
	if len(urls) == 0 || r.Plain() {
		return urls
	}
	i := max(0, slices.IndexFunc(urls, func(url string) bool { return strings.HasPrefix(url, "http") }))
	urls[i] += "#" + r.String()
	return urls
}
