package memory

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// fragmentBytes limits the length of a fragment of a watch and of a piece of a range, unless one event or object is longer.
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
