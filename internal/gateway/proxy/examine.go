package proxy

import (
	"context"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/platform/build"
	"github.com/netcraq/netcraq/internal/platform/callerror"
	"github.com/netcraq/netcraq/internal/platform/finding"
)

// examineWithin is how long one member may take.
const examineWithin = 3 * time.Second

// Examine finds what the etcd that options name lacks, one member after the other, and what gateways have left out of their cache.
func (o *Options) Examine(ctx context.Context) (list []finding.Finding) {
	answers := false
	for _, endpoint := range o.Endpoints {
		member := *o
		member.Endpoints = []string{endpoint}
		found := member.examineMember(ctx)
		answers = answers || found.State != finding.Broken
		list = append(list, found)
	}
	if !answers {
		return list
	}
	return append(append(list, o.examineExcluded(ctx)), o.examineGateways(ctx)...)
}

func (o *Options) examineMember(ctx context.Context) finding.Finding {
	ctx, cancel := context.WithTimeout(ctx, examineWithin)
	defer cancel()
	f := finding.Finding{Check: "etcd", About: o.Endpoints[0], State: finding.OK}
	var s *pb.StatusResponse
	err := o.operate(func(etcd *upstream) (err error) {
		s, err = pb.NewMaintenanceClient(etcd).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(true))
		return err
	})
	if err != nil {
		f.State, f.Text, f.Remedy = finding.Broken, callerror.Text(err), "check the address, the certificates and the member's log"
		return f
	}
	f.Text = fmt.Sprintf("etcd %s, revision %d, %d KiB", s.Version, s.Header.GetRevision(), s.DbSize>>10)
	switch err := recent(s.Version); {
	case err != nil:
		f.State, f.Text = finding.Broken, err.Error()
	case s.Leader == 0:
		f.State, f.Text, f.Remedy = finding.Broken, "this member knows no leader", "start more members, or mend the network between them"
	case len(s.Errors) > 0:
		f.State, f.Text = finding.Broken, strings.Join(s.Errors, "; ")
		f.Remedy = "etcdctl alarm list; for NOSPACE compact and defragment, then etcdctl alarm disarm"
	case s.IsLearner:
		f.State, f.Text, f.Remedy = finding.Warning, "this member is a learner, which answers no linearizable reads", "promote it"
	}
	return f
}

func (o *Options) examineExcluded(ctx context.Context) finding.Finding {
	ctx, cancel := context.WithTimeout(ctx, examineWithin)
	defer cancel()
	f := finding.Finding{Check: "gateways' cache", State: finding.OK, Text: "no key is excluded"}
	var keys []string
	err := o.operate(func(etcd *upstream) (err error) {
		keys, err = engine.Excluded(ctx, etcd.ClientConn, "")
		return err
	})
	switch {
	case err != nil:
		f.State, f.Text = finding.Unknown, err.Error()
	case len(keys) > 0:
		f.State, f.Text = finding.Warning, fmt.Sprintf("%d keys are not cached: a write reached etcd past the gateways", len(keys))
		f.Remedy = "let every client of etcd use a gateway, then netcraq placement allow \"\""
	}
	return f
}

// examineGateways finds the gateways that cache, and those of other versions.
func (o *Options) examineGateways(ctx context.Context) (list []finding.Finding) {
	ctx, cancel := context.WithTimeout(ctx, examineWithin)
	defer cancel()
	var running []string
	if err := o.operate(func(etcd *upstream) (err error) {
		running, err = engine.Running(ctx, etcd.ClientConn)
		return err
	}); err != nil {
		return []finding.Finding{{Check: "gateway", State: finding.Unknown, Text: err.Error()}}
	}
	for _, about := range running {
		list = append(list, judgeGateway(about))
	}
	return list
}

// judgeGateway compares the version that a gateway names with that of this program.
func judgeGateway(about string) finding.Finding {
	about, version, _ := strings.Cut(about, aboutVersion)
	f := finding.Finding{Check: "gateway", About: about, State: finding.OK, Text: "it has a session"}
	if other := build.Other(version); other != "" {
		f.State, f.Text, f.Remedy = finding.Warning, other, build.Order
	}
	return f
}
