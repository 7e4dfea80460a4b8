package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	etcdutl "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/platform/thread"
)

// keyspaceProgram is a gateway of a keyspace on disks, and its name, as [childrenOf] gives it.
const keyspaceProgram = "netcraq keyspace"

// keyspaceNameFlag and a name are the first argument of such a gateway.
const keyspaceNameFlag = "--member="

// controlData has the data of stores, on the control machine.
const controlData = "/var/lib/netcraq-lab"

// keyspaceServices are gateways of a keyspace on disks in the place of etcd's members, at their addresses.
func (s *state) keyspaceServices() (all []service) {
	for _, m := range s.Options.etcdMembers() {
		argv := append([]string{s.Options.Netcraq, "keyspace"}, s.keyspaceFlags(m)...)
		all = append(all, service{keyspaceName(m), argv})
	}
	return all
}

func keyspaceName(m etcdMember) string { return strings.Replace(m.name, "etcd", "keyspace", 1) }

// keyspaceFlags are those of the gateway in the place of a member. Each keyspace has a name and directories of its own.
func (s *state) keyspaceFlags(m etcdMember) []string {
	name := keyspaceName(m)
	return append([]string{keyspaceNameFlag + name, fmt.Sprintf("--name=kubernetes-%d", s.Keyspace),
		"--listen=" + m.client,
		"--data-dir=" + filepath.Join(controlData, fmt.Sprintf("%s-%d", name, s.Keyspace))}, s.chainFlags()...)
}

// storeServices are the servers that have the cluster's objects.
func (s *state) storeServices() []service {
	switch {
	case s.Moving:
		return nil
	case s.Keyspace > 0:
		return s.keyspaceServices()
	}
	return s.etcdServices()
}

// enterKeyspace moves all objects from etcd into a new keyspace on disks. The API server is away meanwhile.
func (s *state) enterKeyspace(ctx context.Context) error {
	s.Options.Progress("moving all objects from etcd into a keyspace on disks")
	members := s.Options.etcdMembers()
	var programs []string
	for _, m := range members {
		programs = append(programs, m.program())
	}
	if err := s.stop(ctx, programs...); err != nil {
		return err
	}
	s.Keyspaces++
	s.Keyspace = s.Keyspaces
	database := filepath.Join(controlData, members[0].name, "member/snap/db")
	command := []string{"keyspace", "import", "--snapshot", database, "--skip-hash-check"}
	if err := s.onControl(ctx, append(command, s.keyspaceFlags(members[0])...)...); err != nil {
		return err
	}
	return s.start(ctx)
}

// leaveKeyspace moves all objects from the keyspace into etcd.
func (s *state) leaveKeyspace(ctx context.Context) error {
	s.Options.Progress("moving all objects from the keyspace into etcd")
	if err := s.stopAPI(ctx); err != nil {
		return err
	}
	snapshot := filepath.Join(dirOf(s.Options.Name), "keyspace.db")
	defer os.Remove(snapshot)
	members := s.Options.etcdMembers()
	if err := s.saveSnapshot(ctx, members[0].client, snapshot); err != nil {
		return fmt.Errorf("snapshot of the keyspace: %w", err)
	}
	var programs []string
	for _, m := range members {
		programs = append(programs, keyspaceProgram+" "+keyspaceName(m))
	}
	if err := s.stop(ctx, programs...); err != nil {
		return err
	}
	for _, m := range members {
		if err := s.restore(m, snapshot); err != nil {
			return fmt.Errorf("restore %s: %w", m.name, err)
		}
	}
	s.Keyspace = 0
	return s.start(ctx)
}

// stopAPI ends the API server until [state.start].
func (s *state) stopAPI(ctx context.Context) error {
	s.APIAway = true
	return s.end(ctx, unix.SIGKILL, apiProgram) // after SIGTERM it waits a minute for its clients
}

// stop ends the API server, and then the servers of its store, until [state.start].
func (s *state) stop(ctx context.Context, servers ...string) error {
	if err := s.stopAPI(ctx); err != nil {
		return err
	}
	s.Moving = true
	return s.end(ctx, unix.SIGTERM, servers...)
}

// end writes the state, by which programs of the control machine are not wanted, and ends them.
func (s *state) end(ctx context.Context, signal unix.Signal, programs ...string) error {
	if err := s.write(); err != nil {
		return err
	}
	control := s.Machines[Control].PID
	for _, program := range programs {
		if pid, ok := childrenOf(control)[program]; ok {
			if err := unix.Kill(pid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("end %s: %w", program, err)
			}
		}
	}
	return s.await(ctx, func(context.Context) error {
		running := childrenOf(control)
		for _, program := range programs {
			if pid, ok := running[program]; ok {
				return fmt.Errorf("%s, process %d, has not ended", program, pid)
			}
		}
		return nil
	})
}

// start has the control machine start what it lacks, and waits until the API server is ready.
func (s *state) start(ctx context.Context) error {
	s.Moving, s.APIAway = false, false
	if err := errors.Join(s.write(), s.startMissing()); err != nil {
		return err
	}
	return s.awaitAPI(ctx)
}

// onControl runs a command of the product on the control machine.
func (s *state) onControl(ctx context.Context, arguments ...string) error {
	enter := []string{"--target", strconv.Itoa(s.Machines[Control].PID), "--mount", "--net", s.Options.Netcraq}
	if out, err := exec.CommandContext(ctx, "nsenter", append(enter, arguments...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("netcraq %s: %w: %s", strings.Join(arguments, " "), err, out)
	}
	return nil
}

// saveSnapshot writes a snapshot of a store of the control machine into a file.
func (s *state) saveSnapshot(ctx context.Context, address, path string) error {
	dial := thread.DialIn(namespaceOf(s.Machines[Control]))
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + address}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return dial(ctx, address)
		})}})
	if err != nil {
		return err
	}
	defer c.Close()
	from, err := c.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// restore gives a member of etcd the content of a snapshot, in the place of what it had.
func (s *state) restore(m etcdMember, snapshot string) error {
	dir := filepath.Join("/proc", strconv.Itoa(s.Machines[Control].PID), "root", controlData, m.name)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return etcdutl.NewV3(zap.NewNop()).Restore(etcdutl.RestoreConfig{
		SnapshotPath: snapshot, Name: m.name, OutputDataDir: dir, PeerURLs: []string{"http://" + m.peer},
		InitialCluster: s.Options.initialCluster(), InitialClusterToken: "etcd-cluster",
	})
}
