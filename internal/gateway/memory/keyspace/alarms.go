package keyspace

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
)

// Alarms are etcd's, in the bucket where etcd has them. Each change is a command. With the alarm NOSPACE no command is
// executed that adds something, until an operator disarms it.

// Alarms lists the alarms of a type; NONE: of all.
func (k *Keyspace) Alarms(of pb.AlarmType) []*pb.AlarmMember { return k.alarms.Get(of) }

// Full reports whether there is the alarm NOSPACE.
func (k *Keyspace) Full() bool { return k.full.Load() }

// checkSpace refuses a command that adds something to a full keyspace.
func (k *Keyspace) checkSpace(c *Command) error {
	if k.Full() && c.Cost(0).Least > 0 {
		return etcderrors.ErrNoSpace
	}
	return nil
}

// changeAlarm executes a command about an alarm.
func (k *Keyspace) changeAlarm(q *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	a, id := &pb.AlarmResponse{Header: k.header()}, types.ID(q.MemberID)
	var changed *pb.AlarmMember
	switch {
	case q.Action == pb.AlarmRequest_ACTIVATE && q.Alarm != pb.AlarmType_NONE:
		changed = k.alarms.Activate(id, q.Alarm)
	case q.Action == pb.AlarmRequest_DEACTIVATE:
		changed = k.alarms.Deactivate(id, q.Alarm)
	}
	k.countAlarms()
	if changed != nil {
		a.Alarms = append(a.Alarms, changed)
	}
	return a, nil
}

func (k *Keyspace) countAlarms() { k.full.Store(len(k.alarms.Get(pb.AlarmType_NOSPACE)) > 0) }
