package memory

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// fragmentBytes is the longest response to a watch that wants fragments, unless one event is longer.
const fragmentBytes = 3 << 19

// sendFragments sends a response in pieces. All but the last are marked.
func sendFragments(r *pb.WatchResponse, send func(*pb.WatchResponse) error) error {
	events := r.Events
	for {
		n, size := 0, 0
		for n < len(events) {
			size += proto.Size(events[n])
			if n > 0 && size > fragmentBytes {
				break
			}
			n++
		}
		piece := &pb.WatchResponse{
			Header: r.Header, WatchId: r.WatchId, Created: r.Created, Canceled: r.Canceled,
			CompactRevision: r.CompactRevision, CancelReason: r.CancelReason, Events: events[:n], Fragment: n < len(events),
		}
		if err := send(piece); err != nil || !piece.Fragment {
			return err
		}
		events = events[n:]
	}
}
