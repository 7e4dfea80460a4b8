package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

// nodeLeases has the leases that kubelets renew.
const nodeLeases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

type leaseList struct {
	Items []struct {
		Metadata metadata
		Spec     struct{ RenewTime time.Time }
	}
}

// UseLeases has the API server of a cluster that is up keep leases in the chain's memory, or in its etcd again. It
// returns when all nodes have renewed theirs there.
//
// Leases are not moved: those who need them write them again. Components that watch leases are started again, because
// revisions of one store mean nothing in the other.
func UseLeases(ctx context.Context, name string, memory bool, progress func(string)) error {
	s, err := readUp(name)
	if err != nil {
		return err
	}
	s.Options.Progress, s.started = progress, make(map[string]time.Time)
	return s.useLeases(ctx, memory)
}

func (s *state) useLeases(ctx context.Context, memory bool) error {
	if memory == s.MemoryLeases {
		return nil
	}
	if memory && s.Options.Manifests == "" {
		return errNoChain
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("not in time"))
	defer cancel()
	s.MemoryLeases = memory
	if err := s.write(); err != nil {
		return err
	}
	if memory {
		if err := s.startMemoryGateways(ctx); err != nil {
			return err
		}
	}
	begin := time.Now()
	if err := s.change(ctx, apiProgram, func() {}); err != nil {
		return err
	}
	if !memory {
		if err := s.endMemoryGateways(ctx); err != nil {
			return err
		}
	}
	for _, program := range []string{managerProgram, schedulerProgram} {
		if err := s.change(ctx, program, func() {}); err != nil {
			return err
		}
	}
	return s.awaitLeases(ctx, begin)
}

// startMemoryGateways has the control machine start what it lacks, and waits until both gateways serve.
func (s *state) startMemoryGateways(ctx context.Context) error {
	s.Options.Progress("starting gateways that keep leases in the chain's memory")
	if err := s.startMissing(); err != nil {
		return err
	}
	return s.await(ctx, func(ctx context.Context) error {
		for _, addr := range memoryAddrs {
			if err := healthy(ctx, addr); err != nil {
				return err
			}
		}
		return nil
	})
}

// healthy returns an error unless a gateway makes a linearizable read.
func healthy(ctx context.Context, addr string) error {
	_, err := readPage(ctx, http.DefaultClient, "http://"+addr+"/health")
	return err
}

func (s *state) endMemoryGateways(ctx context.Context) error {
	s.Options.Progress("ending the gateways with the leases")
	var programs []string
	for _, addr := range memoryAddrs {
		programs = append(programs, memoryProgram+" "+addr)
	}
	return s.end(ctx, unix.SIGTERM, programs...)
}

// awaitLeases waits until every node has renewed its lease since then.
func (s *state) awaitLeases(ctx context.Context, since time.Time) error {
	s.Options.Progress("waiting for every node's lease")
	a, err := NewAPI(s.Options.Name)
	if err != nil {
		return err
	}
	defer a.Close()
	return s.await(ctx, func(ctx context.Context) error {
		var found leaseList
		if err := a.Get(ctx, nodeLeases, &found); err != nil {
			return err
		}
		is := make(map[string]bool)
		for _, l := range found.Items {
			is[l.Metadata.Name] = l.Spec.RenewTime.After(since)
		}
		for _, h := range workerHosts() {
			if !is[h.name] {
				return fmt.Errorf("%s has not renewed its lease", h.name)
			}
		}
		return nil
	})
}
