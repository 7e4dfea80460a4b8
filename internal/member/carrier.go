package member

import (
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// recordMark begins a record in a client URL of a member. It is a fragment, which etcd's clients ignore in http and https URLs.
const recordMark = "#netcraq."

// stripAll takes the records out of a list of members for clients.
func stripAll(members []*pb.Member) {
	for _, m := range members {
		for i, url := range m.ClientURLs {
			m.ClientURLs[i], _, _ = strings.Cut(url, recordMark)
		}
	}
}
