package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/wire"
)

const (
	// patience is how long a backup goes on trying while no shard can be had.
	patience = 30 * time.Second
	// retryAfter is the pause after a round in which some shards could not be had.
	retryAfter = 200 * time.Millisecond
	// silence is how long an agent may send nothing, if its pace is not limited.
	silence = 10 * time.Second
)

// Agents reaches the agent at a TCP address. The caller ends the connection.
type Agents func(api string) (agentv1.AgentClient, func() error, error)

// Progress is how far a backup or a restore has come.
type Progress struct {
	Stage       string // the present step
	Done, Total uint64 // shards while backing up, else objects; a total of 0: not known yet
	Objects     uint64
	Bytes       uint64 // of values
}

// BackupOptions configure a backup. Client and Agents are required.
type BackupOptions struct {
	Client   *client.Client
	Agents   Agents
	MaxKiBs  uint32 // at most so fast; 0: as fast as it goes
	Replace  bool   // a file that is there
	Progress func(Progress)
}

// BackupReport is the result of a backup.
type BackupReport struct {
	Header
	Totals
	FileBytes int64 `json:"file_bytes"`
	Retries   int   `json:"retries"` // exports that broke off and were begun again
}

// backup is a backup while it runs.
type backup struct {
	options *BackupOptions
	writer  *writer
	left    map[uint16]bool // shards that are not in the file
	retries int
}

// CheckTarget reports why no snapshot can be written to a file: its directory is missing, or it exists and is not to be
// replaced.
func CheckTarget(path string, replace bool) error {
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is no directory", filepath.Dir(path))
	}
	if _, err := os.Lstat(path); err == nil && !replace {
		return fmt.Errorf("%s is there already: name another file, or replace it with --replace", path)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Backup writes a snapshot of the cluster to a file, which is there when it is complete, and not before.
func Backup(ctx context.Context, path string, o BackupOptions) (*BackupReport, error) {
	if err := CheckTarget(path, o.Replace); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, err
	}
	report, err := writeBackup(ctx, file, &o)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(file.Name()))
	}
	return report, nil
}

func writeBackup(ctx context.Context, file *os.File, o *BackupOptions) (*BackupReport, error) {
	m := o.Client.Map()
	header := Header{Cluster: m.Cluster, Shards: m.Shards(), Begun: time.Now().UTC().Truncate(time.Second)}
	var err error
	if header.CellBytes, err = longestCell(ctx, o); err != nil {
		return nil, err
	}
	b := &backup{options: o, left: make(map[uint16]bool, m.Shards())}
	for shard := range m.Shards() {
		b.left[uint16(shard)] = true
	}
	if b.writer, err = newWriter(file, &header); err != nil {
		return nil, err
	}
	if err := b.run(ctx); err != nil {
		return nil, err
	}
	if err := b.writer.finish(); err != nil {
		return nil, err
	}
	return &BackupReport{header, b.writer.totals, b.writer.offset, b.retries}, nil
}

// longestCell asks the nodes how long values may be.
func longestCell(ctx context.Context, o *BackupOptions) (int, error) {
	longest, failures := 0, []error(nil)
	for _, node := range o.Client.Map().Nodes {
		info, _, err := ask(ctx, o.Agents, node)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		longest = max(longest, int(info.GetCellBytes()))
	}
	if longest == 0 {
		return 0, fmt.Errorf("no node answers: %w", errors.Join(failures...))
	}
	return min(longest, wire.MaxValueBytes), nil
}

// ask asks a node's agent about the node.
func ask(ctx context.Context, agents Agents, node client.Node) (*agentv1.InfoResponse, *agentv1.UsageResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, silence/5)
	defer cancel()
	agent, end, err := agents(node.APIAddr())
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = end() }()
	info, err := agent.Info(ctx, &agentv1.InfoRequest{})
	if err != nil {
		return nil, nil, fmt.Errorf("node %s, agent %s: %w", node.Name, node.APIAddr(), err)
	}
	usage, err := agent.Usage(ctx, &agentv1.UsageRequest{})
	if err != nil {
		return nil, nil, fmt.Errorf("node %s, agent %s: %w", node.Name, node.APIAddr(), err)
	}
	return info, usage, nil
}

// run gets every shard from a node that has it.
func (b *backup) run(ctx context.Context) error {
	for since := time.Now(); ; {
		progress, failed := b.round(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case len(b.left) == 0:
			return nil
		case errors.Is(failed, errDenied):
			return failed
		case progress:
			since = time.Now()
		case time.Since(since) > patience:
			return fmt.Errorf("%d shards cannot be had: %w", len(b.left), failed)
		}
		retry.Sleep(ctx, retryAfter)
	}
}

// round tries every chain that serves shards still wanted, once.
func (b *backup) round(ctx context.Context) (progress bool, failed error) {
	m := b.options.Client.Map()
	wanted := make([][]uint32, len(m.Chains))
	for shard, chain := range m.ByShard {
		if b.left[uint16(shard)] {
			wanted[chain] = append(wanted[chain], uint32(shard))
		}
	}
	for i := range m.Chains {
		if len(wanted[i]) == 0 || ctx.Err() != nil {
			continue
		}
		if err := b.chain(ctx, m, &m.Chains[i], wanted[i]); err != nil {
			failed = err
			continue
		}
		progress = true
		for _, shard := range wanted[i] {
			delete(b.left, uint16(shard))
		}
		b.tell(m.Shards())
	}
	return progress, failed
}

func (b *backup) tell(shards int) {
	if b.options.Progress != nil {
		b.options.Progress(Progress{
			Stage: "backing up", Done: uint64(shards - len(b.left)), Total: uint64(shards),
			Objects: b.writer.totals.Objects, Bytes: b.writer.totals.ValueBytes,
		})
	}
}

// chain gets the shards of one chain from one of its complete members: the tail, or another one if that fails.
func (b *backup) chain(ctx context.Context, m *client.Map, c *client.MapChain, shards []uint32) error {
	members := m.Complete(c)
	if c.Lost || len(members) == 0 {
		return fmt.Errorf("no node has shard %d", shards[0])
	}
	before, err := b.writer.mark()
	if err != nil {
		return err
	}
	var failures []error
	for i := len(members) - 1; i >= 0 && ctx.Err() == nil; i-- {
		e := export{backup: b, shards: shards, epoch: c.Epoch, all: m.Shards()}
		err := e.run(ctx, members[i])
		if err == nil {
			return nil
		}
		b.retries++
		failures = append(failures, fmt.Errorf("node %s: %w", members[i].Name, err))
		if err := b.writer.back(before); err != nil {
			return err
		}
	}
	return errors.Join(failures...)
}
