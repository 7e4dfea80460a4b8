// Package etcdkeyspace starts gateways of a keyspace on disks, which are compared with members of etcd.
package etcdkeyspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/eval/etcdgateway"
	"github.com/netcraq/netcraq/internal/cluster/admin"
)

const (
	// wholeWithin bounds how long it takes until the keyspace has an era with the disks of all gateways.
	wholeWithin = time.Minute
	look        = 100 * time.Millisecond
)

// name is that of the keyspace.
const name = "bench"

// Options describe the gateways.
type Options struct {
	Netcraq     string   // path of netcraq
	Controllers []string // of the chain's cluster
	Pins        string   // directory of the nodes' pins; empty: the gateways read through the network
	Gateways    int
	Dir         string // of their disks
	QuotaBytes  uint64 // of the memory of each; 0: the gateways' default
}

// dir is the directory of a gateway's disk.
func (o *Options) dir(i int) string { return filepath.Join(o.Dir, fmt.Sprint(i)) }

// gateway starts a gateway, or starts it again.
func (o *Options) gateway(ctx context.Context, i int) (*etcdgateway.Process, error) {
	return etcdgateway.StartProcess(ctx, func(listen string) []string {
		line := []string{o.Netcraq, "keyspace", "--name", name, "--data-dir", o.dir(i), "--member", fmt.Sprint(i),
			"--listen", listen, "--controllers", strings.Join(o.Controllers, ","), "--pins", o.Pins}
		if o.QuotaBytes > 0 {
			line = append(line, "--quota-bytes", fmt.Sprint(o.QuotaBytes))
		}
		return line
	})
}

// Servers are gateways, each a process with a disk.
type Servers struct {
	processes []*etcdgateway.Process
}

// Start starts the gateways of a new keyspace, and waits until the disks of all of them count.
func Start(ctx context.Context, o Options) (_ *Servers, err error) {
	s := new(Servers)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Ended(), s.Stop())
		}
	}()
	for i := range o.Gateways {
		p, err := o.gateway(ctx, i)
		if err != nil {
			return nil, err
		}
		s.processes = append(s.processes, p)
	}
	ctx, cancel := context.WithTimeout(ctx, wholeWithin)
	defer cancel()
	for {
		disks, err := o.disks(ctx)
		if err == nil && disks == o.Gateways {
			return s, s.answer(ctx)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("%d of %d disks of the keyspace count after %v", disks, o.Gateways, wholeWithin), err)
		case <-time.After(look):
		}
	}
}

// disks is the number of disks of the present era; 0 while the next one is prepared.
func (o *Options) disks(ctx context.Context) (int, error) {
	text, err := exec.CommandContext(ctx, o.Netcraq, "status", "--json", "--controllers", strings.Join(o.Controllers, ",")).Output()
	if err != nil {
		return 0, fmt.Errorf("netcraq status: %w", err)
	}
	var status admin.Snapshot
	if err := json.Unmarshal(text, &status); err != nil {
		return 0, fmt.Errorf("netcraq status: %w", err)
	}
	for _, k := range status.Keyspaces {
		if k.Name == name {
			return k.CountingDisks(), nil
		}
	}
	return 0, nil
}

// answer waits until all gateways answer.
func (s *Servers) answer(ctx context.Context) error {
	for _, endpoint := range s.Endpoints() {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
		if err != nil {
			return err
		}
		_, err = c.Get(ctx, name)
		_ = c.Close() // its error only reports that the connection is gone
		if err != nil {
			return fmt.Errorf("the gateway at %s does not answer: %w", endpoint, err)
		}
	}
	return nil
}

// Endpoints returns the URLs of the gateways.
func (s *Servers) Endpoints() (all []string) {
	for _, p := range s.processes {
		all = append(all, "http://"+p.Address())
	}
	return all
}

// PIDs returns the gateways' processes.
func (s *Servers) PIDs() (all []int) {
	for _, p := range s.processes {
		all = append(all, p.PID())
	}
	return all
}

// Ended returns an error for each gateway that has ended by itself.
func (s *Servers) Ended() error {
	var all []error
	for _, p := range s.processes {
		all = append(all, p.Ended())
	}
	return errors.Join(all...)
}

// Stop kills all gateways.
func (s *Servers) Stop() error {
	for _, p := range s.processes {
		p.Kill()
	}
	return nil
}
