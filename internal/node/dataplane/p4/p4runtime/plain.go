package p4runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// Fields in front of a packet to a program that takes its clock and tries packets. SWX's engine does both.
const (
	portField = "port"
	nowField  = "now"
	noteField = "note"
)

// checkWrites finds out whether the switch makes all updates of a message at once.
func (r *Remote) checkWrites() error {
	r.atomic = p4v1.WriteRequest_DATAPLANE_ATOMIC
	err := r.tryWrite(nil)
	if status.Code(err) == codes.Unimplemented {
		r.atomic, err = p4v1.WriteRequest_CONTINUE_ON_ERROR, nil
	}
	return err
}

// fits refuses updates after which a table would have too many entries.
func (r *Remote) fits(updates []*p4v1.Update) error {
	more := make(map[uint32]int)
	for _, u := range updates {
		switch id := u.GetEntity().GetTableEntry().GetTableId(); u.GetType() {
		case p4v1.Update_INSERT:
			more[id]++
		case p4v1.Update_DELETE:
			more[id]--
		}
	}
	for name, t := range r.catalog.tables {
		id := t.GetPreamble().GetId()
		if entries := len(r.present[id]) + more[id]; more[id] > 0 && int64(entries) > t.GetSize() {
			return fmt.Errorf("switch: a table is full, and none of the changes was made: table %s has %d entries",
				name, t.GetSize())
		}
	}
	return nil
}

// makeGroups makes a multicast group for each number of copies that a tail's frame has: its replicas come in again. A
// switch without groups copies frames itself.
func (r *Remote) makeGroups() error {
	var groups []*p4v1.Update
	for copies := 2; copies <= p4.MostCopies; copies++ {
		g := &p4v1.MulticastGroupEntry{MulticastGroupId: uint32(copies)}
		for i := range copies {
			g.Replicas = append(g.Replicas, &p4v1.Replica{
				PortKind: &p4v1.Replica_EgressPort{EgressPort: p4.PortAgain}, Instance: uint32(i),
			})
		}
		groups = append(groups, &p4v1.Update{Type: p4v1.Update_INSERT, Entity: &p4v1.Entity{
			Entity: &p4v1.Entity_PacketReplicationEngineEntry{
				PacketReplicationEngineEntry: &p4v1.PacketReplicationEngineEntry{
					Type: &p4v1.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: g},
				},
			},
		}})
	}
	err := r.tryWrite(groups)
	if status.Code(err) == codes.Unimplemented {
		return nil
	}
	return err
}

// packet hands in a frame. Fields that the program does not take are left out.
func (r *Remote) packet(frame []byte, fields map[string]uint64) error {
	m := &p4v1.PacketOut{Payload: frame}
	for name, v := range fields {
		if id := r.catalog.out[name]; id != 0 {
			m.Metadata = append(m.Metadata, &p4v1.PacketMetadata{MetadataId: id, Value: format(v)})
		}
	}
	err := r.send(&p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Packet{Packet: m}})
	if err != nil {
		return r.explain(err)
	}
	return nil
}

// tryPacket is Try on a switch that knows no requests of this project: the program answers each frame that leaves.
func (r *Remote) tryPacket(port int, frame []byte) ([]p4.Left, error) {
	if r.catalog.out[noteField] == 0 {
		return nil, errors.New("its program tries no packets")
	}
	r.asking.Lock()
	defer r.asking.Unlock()
	fields := map[string]uint64{portField: uint64(port), nowField: r.clock.Load(), noteField: 1}
	if err := r.packet(frame, fields); err != nil {
		return nil, err
	}
	late := time.NewTimer(r.target.Patience)
	defer late.Stop()
	var all []p4.Left
	for more := 1; more > 0; more-- {
		select {
		case f := <-r.tried:
			left, copies := p4.LeftOf(f)
			if len(all) == 0 {
				more = max(more, copies)
			}
			all = append(all, left)
		case <-r.gone:
			return nil, r.Err()
		case <-late.C:
			return nil, r.explain(context.DeadlineExceeded)
		}
	}
	return all, nil
}
