package chaos

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/keyspace/journal"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// keyspaceRecipes are the kinds of faults of a keyspace on disks. Each of those that take a disk or the chain waits at
// its end until the keyspace has its redundancy again.
var keyspaceRecipes = []recipe{
	{"gateways_kill", 4, 50 * time.Millisecond, 2 * time.Second, (*driver).gatewaysKill},
	{"chain_emptied", 3, 50 * time.Millisecond, 3 * time.Second, (*driver).chainEmptied},
	{"power", 3, 50 * time.Millisecond, 3 * time.Second, (*driver).power},
	{"disk_emptied", 3, 50 * time.Millisecond, 4 * time.Second, (*driver).diskEmptied},
	{"disk_damaged", 3, 50 * time.Millisecond, 2 * time.Second, (*driver).diskDamaged},
	{"disk_full", 2, 50 * time.Millisecond, 4 * time.Second, (*driver).diskFull},
	{"disk_frozen", 3, time.Second, 5 * time.Second, (*driver).diskFrozen},
}

// KeyspaceKinds lists the kinds of faults of a trial of a keyspace on disks.
func KeyspaceKinds() []string { return append(MemoryKinds(), names(keyspaceRecipes)...) }

// formAgainWithin bounds the time until a cluster whose nodes were all emptied is whole, and all disks count.
const formAgainWithin = 3 * time.Minute

// gatewaysKill kills all gateways at once.
func (d *driver) gatewaysKill() *fault {
	return &fault{
		hosts: serviceNames(d.gateways), alone: true,
		begin: func(context.Context) error { return eachService(d.gateways, (*lab.Service).Kill) },
		end:   func(context.Context) error { return eachService(d.gateways, (*lab.Service).Start) },
	}
}

// chainEmptied has all nodes lose their state at once.
func (d *driver) chainEmptied() *fault {
	var epochs []uint32
	return &fault{
		hosts: slices.Clone(d.nodes), alone: true,
		begin: func(ctx context.Context) error {
			epochs = d.guard.c.epochs()
			return d.emptyNodes(ctx)
		},
		end: func(ctx context.Context) error {
			return errors.Join(d.switchOn(ctx, d.nodes), d.formAgain(ctx, epochs))
		},
	}
}

// power ends all processes at once: controllers, nodes with their state, and gateways.
func (d *driver) power() *fault {
	var epochs []uint32
	return &fault{
		hosts: slices.Concat(d.nodes, d.controllers, serviceNames(d.gateways)), alone: true,
		begin: func(ctx context.Context) error {
			epochs = d.guard.c.epochs()
			failed := eachService(d.gateways, (*lab.Service).Kill)
			for _, controller := range d.controllers {
				failed = errors.Join(failed, d.lab.KillAgent(ctx, controller))
			}
			return errors.Join(failed, d.emptyNodes(ctx))
		},
		end: func(ctx context.Context) error {
			return errors.Join(d.switchOn(ctx, slices.Concat(d.controllers, d.nodes)),
				eachService(d.gateways, (*lab.Service).Start), d.formAgain(ctx, epochs))
		},
	}
}

func (d *driver) emptyNodes(ctx context.Context) (failed error) {
	for _, node := range d.nodes {
		failed = errors.Join(failed, d.lab.KillNode(ctx, node))
	}
	return failed
}

func (d *driver) switchOn(ctx context.Context, hosts []string) (failed error) {
	for _, host := range hosts {
		failed = errors.Join(failed, d.lab.SwitchOn(ctx, host))
	}
	return failed
}

// formAgain has the operator accept that the chains are empty, and waits until they are whole and all disks count.
// epochs are those of all shards when the nodes were emptied.
func (d *driver) formAgain(ctx context.Context, epochs []uint32) error {
	ctx, cancel := context.WithTimeout(ctx, formAgainWithin)
	defer cancel()
	if err := d.keyspace.formAgain(ctx, epochs, d.guard.c.epochs); err != nil {
		return err
	}
	d.setup.event("the chains are whole")
	return d.keyspace.allCount(ctx)
}

// diskEmptied kills a gateway and removes its data.
func (d *driver) diskEmptied() *fault { return d.diskLost(os.RemoveAll) }

// diskDamaged kills a gateway, and changes a bit of one of its files.
func (d *driver) diskDamaged() *fault {
	random := rand.New(rand.NewPCG(d.rng.Uint64(), 0))
	return d.diskLost(func(dir string) error { return flipBit(dir, random) })
}

// diskLost makes a fault that takes the disk of a gateway. It ends when the disks of all gateways count again.
func (d *driver) diskLost(take func(dir string) error) *fault {
	s, host := d.pickService(d.gateways)
	if s == nil {
		return nil
	}
	c, i := d.keyspace, slices.Index(d.gateways, s)
	dir := c.dirs[i]
	return &fault{
		hosts: []string{s.Name, host}, alone: true,
		begin: func(context.Context) error { return errors.Join(s.Kill(), take(dir)) },
		end: func(ctx context.Context) error {
			if err := c.startAgain(ctx, i); err != nil {
				return err
			}
			aside, err := filepath.Glob(filepath.Join(dir, journal.DamagedPrefix+"*"))
			if len(aside) > 0 {
				c.damaged++
			}
			return err
		},
	}
}

// flipBit changes a bit of a file below a directory. Long files are as likely as short ones.
func flipBit(dir string, random *rand.Rand) error {
	var files []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, failed := e.Info(); failed == nil && info.Size() > 0 {
				files = append(files, path)
			}
		}
		return err
	})
	if err != nil || len(files) == 0 {
		return err
	}
	f, err := os.OpenFile(files[random.IntN(len(files))], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var b [1]byte
	at := random.Int64N(min(info.Size(), writtenBytes))
	if _, err := f.ReadAt(b[:], at); err != nil {
		return err
	}
	b[0] ^= 1 << random.IntN(8)
	_, err = f.WriteAt(b[:], at)
	return err
}

// writtenBytes is the beginning of a file in which a bit is changed: write-ahead logs are allocated in advance, and
// what follows the entries does not matter.
const writtenBytes = 1 << 20

func serviceNames(services []*lab.Service) (all []string) {
	for _, s := range services {
		all = append(all, s.Name)
	}
	return all
}

func eachService(services []*lab.Service, do func(*lab.Service) error) (failed error) {
	for _, s := range services {
		failed = errors.Join(failed, do(s))
	}
	return failed
}
