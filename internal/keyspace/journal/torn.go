package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// sector is what a disk writes as a whole.
const sector = 512

// checkEnd finds a changed length in the last file of a write-ahead log, which etcd takes for its end. It would remove
// what follows. A power failure leaves whole sectors unwritten, so a length is there or is 0 with the rest of its sector.
func checkEnd(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(names) == 0 {
		return errors.Join(err, errors.New("it has no write-ahead log"))
	}
	f, err := os.Open(slices.Max(names))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is read only
	end, err := endOf(f)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	var head [8]byte
	if n, err := f.ReadAt(head[:], end); n < len(head) {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	length := binary.LittleEndian.Uint64(head[:])
	if length == 0 {
		rest := make([]byte, (sector-end%sector)%sector)
		n, err := f.ReadAt(rest, end)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if slices.Max(append(rest[:n], 0)) != 0 {
			return fmt.Errorf("the length at byte %d was overwritten", end)
		}
		return nil
	}
	return checkLength(f, end, size, length)
}

// endOf returns the end of the good records of a file.
func endOf(f *os.File) (int64, error) {
	d := wal.NewDecoder(fileutil.NewFileReader(f))
	for r := new(walpb.Record); ; {
		if err := d.Decode(r); err != nil {
			return d.LastOffset(), nil
		}
		if r.GetType() == wal.CrcType {
			d.UpdateCRC(r.GetCrc())
		}
	}
}

// checkLength compares a record's length with that of the data in it.
func checkLength(f io.ReaderAt, at, size int64, length uint64) error {
	most := uint64(size - at - 8)
	if length&(1<<56-1) > most && size >= wal.SegmentSizeBytes {
		return fmt.Errorf("the length at byte %d is too high", at)
	}
	b := make([]byte, min(64, most))
	if _, err := f.ReadAt(b, at+8); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	n, used := length&(1<<56-1), 0
	for used < len(b) {
		number, kind, size := protowire.ConsumeTag(b[used:])
		if size < 0 {
			return nil // not written
		}
		used += size
		v, size := protowire.ConsumeVarint(b[used:])
		if size < 0 {
			return nil
		}
		used += size
		if number == 3 && kind == protowire.BytesType {
			if uint64(used)+v != n {
				return fmt.Errorf("the length at byte %d is not that of its record", at)
			}
			return nil
		}
	}
	return nil
}
