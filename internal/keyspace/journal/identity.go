package journal

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// Errors to compare with errors.Is.
var (
	// ErrDamaged: the directory has other bytes than were written.
	ErrDamaged = errors.New("the data directory is damaged")
	// ErrUsed: the directory belongs to somebody else.
	ErrUsed = errors.New("the data directory is not this gateway's")
)

const format = 1

// identity is what the write-ahead log of a directory begins with.
type identity struct {
	Format   int    `json:"format"`
	Keyspace string `json:"keyspace"`
	ID       uint64 `json:"id"` // of the keyspace
	Member   string `json:"member"`
	Identity uint64 `json:"identity"`
}

// Name is the number of a gateway.
func Name(member string) uint64 {
	sum := sha256.Sum256([]byte(member))
	return binary.BigEndian.Uint64(sum[:]) | 1
}

func (i *identity) disk() core.Disk { return core.Disk{Name: Name(i.Member), Identity: i.Identity} }

func (i *identity) encode() ([]byte, error) { return json.Marshal(i) }

func draw(keyspace string, id uint64, member string) identity {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return identity{format, keyspace, id, member, binary.BigEndian.Uint64(b[:]) | 1}
}

// check refuses a directory that was made for another gateway.
func (i *identity) check(dir, keyspace string, id uint64, member string) error {
	switch {
	case i.Format != format:
		return fmt.Errorf("%w: %s has format %d, and this program reads %d: use the program that made it", ErrUsed, dir, i.Format, format)
	case i.Keyspace != keyspace:
		return fmt.Errorf("%w: %s has the keyspace %q, and this is %q: name another directory", ErrUsed, dir, i.Keyspace, keyspace)
	case i.ID != id:
		return fmt.Errorf("%w: %s has another keyspace %q, with the number %x, and the controllers know %x: name another directory",
			ErrUsed, dir, keyspace, i.ID, id)
	case i.Member != member:
		return fmt.Errorf("%w: %s is of the gateway %q, and this is %q: name another directory, or that gateway's name if it has moved",
			ErrUsed, dir, i.Member, member)
	}
	return nil
}

func decodeIdentity(b []byte) (i identity, err error) {
	if err := json.Unmarshal(b, &i); err != nil {
		return i, fmt.Errorf("%w: its identity cannot be read: %w", ErrDamaged, err)
	}
	return i, nil
}

// Known is the number of the keyspace that a directory has; 0: none that can be read.
func Known(dir string) (uint64, error) {
	names, err := filepath.Glob(filepath.Join(dir, walDir, "*.wal"))
	if err != nil || len(names) == 0 {
		return 0, err
	}
	f, err := os.Open(slices.Max(names))
	if err != nil {
		return 0, unwritable(dir, err)
	}
	defer f.Close() //nolint:errcheck // it is read only
	d := wal.NewDecoder(fileutil.NewFileReader(f))
	for r := new(walpb.Record); d.Decode(r) == nil; {
		switch r.GetType() {
		case wal.CrcType:
			d.UpdateCRC(r.GetCrc())
		case wal.MetadataType:
			i, err := decodeIdentity(r.GetData())
			if err != nil {
				return 0, nil //nolint:nilerr // Open finds the damage
			}
			return i.ID, nil
		default:
			return 0, nil
		}
	}
	return 0, nil
}

// lock keeps other processes out of a directory, which it makes.
func lock(dir string) (*fileutil.LockedFile, error) {
	if err := os.MkdirAll(filepath.Join(dir, contentDir), 0o700); err != nil {
		return nil, unwritable(dir, err)
	}
	l, err := fileutil.TryLockFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("%w: another process uses %s: end it, or name another directory", ErrUsed, dir)
	}
	if err != nil {
		return nil, unwritable(dir, err)
	}
	return l, nil
}

func unwritable(dir string, err error) error {
	return fmt.Errorf("the data directory %s cannot be written: make it writable, give its file system space, or name another: %w", dir, err)
}

// foreign refuses a directory without a journal that has something else in it.
func foreign(dir string) error {
	names, err := os.ReadDir(dir)
	if err != nil {
		return unwritable(dir, err)
	}
	for _, n := range names {
		switch name := n.Name(); {
		case name == contentDir, name == lockFile, name == Certificates, name == walDir+tmpExt, name == "lost+found", strings.HasPrefix(name, DamagedPrefix):
		default:
			return fmt.Errorf("%w: %s has %q, which is of another program: name an empty directory", ErrUsed, dir, name)
		}
	}
	return nil
}

// Certificates is a folder in the directory that belongs to who opens it.
const Certificates = "tls"

// DamagedPrefix begins the names of folders with files whose checksums are wrong.
const DamagedPrefix = "damaged-"

// SetAside moves what a damaged directory has into a folder in it, so that [Open] makes another disk.
func SetAside(dir string) (folder string, err error) {
	l, err := lock(dir)
	if err != nil {
		return "", err
	}
	defer l.Close() //nolint:errcheck // nothing was written to it
	if folder, err = os.MkdirTemp(dir, DamagedPrefix); err != nil {
		return "", unwritable(dir, err)
	}
	for _, name := range []string{walDir, contentDir} {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(folder, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", unwritable(dir, err)
		}
	}
	return folder, syncDir(dir)
}
