package memory

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// fill has a server refuse writes for lack of space, frees the space, and has it accept them again. It returns what the
// server answers.
func fill(t *testing.T, address string) (said []string) {
	c, ctx := open(t, address), t.Context()
	url := "http://" + strings.TrimPrefix(address, "http://") + "/health"
	say := func(what string, err error) {
		s := status.Convert(err)
		said = append(said, fmt.Sprintf("%s: %v %s", what, s.Code(), s.Message()))
	}
	look := func() {
		alarms := must(c.AlarmList(ctx))(t)
		for _, a := range alarms.Alarms {
			said = append(said, "alarm "+a.Alarm.String())
		}
		eventually(t, "the server's own copy has the alarms", func() bool {
			return len(must(c.Status(ctx, address))(t).Errors) == len(alarms.Alarms)
		})
		for _, query := range []string{"", "?exclude=NOSPACE"} {
			answer := must(http.Get(url + query))(t)
			body := must(io.ReadAll(answer.Body))(t)
			answer.Body.Close()
			said = append(said, fmt.Sprintf("health%s: %d %s", query, answer.StatusCode, strings.TrimSpace(string(body))))
		}
	}
	again(func() (*clientv3.PutResponse, error) { return c.Put(ctx, "first", "1") })(t)
	look()
	value := strings.Repeat("v", 1<<20)
	const most = 40 // twice the quota
	kv := pb.NewKVClient(c.ActiveConnection())
	put := func(key, value string) error {
		for {
			_, err := kv.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: []byte(value)})
			if status.Code(err) != codes.Unavailable { // else the server is slow: etcd itself gives up after seconds
				return err
			}
		}
	}
	var err error
	for i := 0; err == nil && i < most; i++ {
		err = put(fmt.Sprintf("full/%d", i), value)
	}
	say("the put that is too much", err)
	look()
	say("a small put", put("first", "2"))
	put3 := &pb.PutRequest{Key: []byte("first"), Value: []byte("3")}
	write := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put3}}
	read := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("first")}}}
	_, err = kv.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{write}})
	say("a transaction that writes", err)
	_, err = kv.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{read}, Failure: []*pb.RequestOp{write}})
	say("one that might write", err)
	_, err = kv.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{read}})
	say("one that reads", err)
	leases := pb.NewLeaseClient(c.ActiveConnection())
	_, err = leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 60})
	say("a lease", err)
	deleted := must(kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("full/"), RangeEnd: []byte("full0")}))(t)
	_, err = kv.Compact(ctx, &pb.CompactionRequest{Revision: deleted.Header.Revision, Physical: true})
	say("a compaction", err)
	must(c.Defragment(ctx, address))(t)
	say("a put before the alarm is disarmed", put("first", "4"))
	disarmed := must(c.AlarmDisarm(ctx, &clientv3.AlarmMember{}))(t)
	for _, a := range disarmed.Alarms {
		said = append(said, "disarmed "+a.Alarm.String())
	}
	look()
	say("a put", put("full/0", value))
	_, err = leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 60})
	say("a lease", err)
	return said
}

// TestNoSpaceAsEtcd: keyspaces in memory and on disks refuse what an etcd refuses above its quota, with its codes,
// texts and alarms, until the alarm is disarmed; at gateways that are not active, too.
func TestNoSpaceAsEtcd(t *testing.T) {
	const quota = 16 << 20
	etcd := etcdtest.Start(t, 1, func(_ int, m *etcdtest.Member) {
		m.Config = func(c *embed.Config) { c.QuotaBackendBytes = quota }
	})
	want := fill(t, etcd.Members[0].ClientURL())
	if !slices.Contains(want, "alarm NOSPACE") {
		t.Fatalf("etcd is not full: %q", want)
	}
	a := start(t, startChain(t), Options{QuotaBytes: quota})
	a.waitActive(t)
	w := newOnDisk(t)
	w.quota, w.entries = quota, 4096
	w.start("a")
	for name, g := range map[string]*gateway{
		"memory": start(t, a.cluster, Options{QuotaBytes: quota}), "disk": w.start("b"),
	} {
		if got := fill(t, g.address); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestAlarmsLast: a gateway that gets the keyspace from a snapshot or a restart knows the alarm.
func TestAlarmsLast(t *testing.T) {
	w := newOnDisk(t)
	g := w.start("a")
	c := open(t, g.address)
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: 5, Alarm: pb.AlarmType_NOSPACE}
	again(func() (*pb.AlarmResponse, error) {
		return pb.NewMaintenanceClient(c.ActiveConnection()).Alarm(w.ctx, alarm)
	})(t)
	late := open(t, w.start("b").address)
	w.kill(g)
	restarted := open(t, w.start("a").address)
	for name, c := range map[string]*clientv3.Client{"restarted": restarted, "late": late} {
		list := again(func() (*clientv3.AlarmResponse, error) { return c.AlarmList(w.ctx) })(t)
		if len(list.Alarms) != 1 || list.Alarms[0].MemberID != 5 {
			t.Errorf("%s: %v", name, list.Alarms)
		}
	}
}
