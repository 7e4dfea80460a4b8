package snapshot

import (
	"errors"
	"hash/crc32"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// magic begins every snapshot. A transfer that changes line ends or high bits would damage its end.
const magic = "NQSNAP\x93\r\n\x1a"

// formatVersion is the only one so far.
const formatVersion = 1

const (
	preludeBytes     = len(magic) + 4 + 4 // magic, version, length of the header
	maxHeaderBytes   = 1 << 16
	blockHeaderBytes = 1 + 4 + 4 // kind, length of the payload, number of objects
	crcBytes         = 4
	hashBytes        = 32

	blockBytes      = 256 << 10 // a block is written when it has as many
	maxBlockBytes   = blockBytes + maxObjectBytes
	objectBytes     = 16 + 8 + 2 // key, version, length of the value
	maxObjectBytes  = objectBytes + wire.MaxValueBytes
	trailerBytes    = 8 + 8 + 8 + hashBytes // objects, bytes of values, blocks, SHA-256
	objectsKind     = 1
	trailerKind     = 2
	maxHeaderString = 256
)

// Errors of files, to compare with errors.Is.
var (
	ErrNotSnapshot = errors.New("this is no snapshot")
	ErrNewer       = errors.New("the snapshot was written by a newer version of netcraq: restore it with that one")
	ErrCut         = errors.New("the snapshot is cut: its end is missing")
	ErrDamaged     = errors.New("the snapshot is damaged")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header describes where a snapshot comes from.
type Header struct {
	Cluster   string    `json:"cluster"` // name; empty for a static cluster
	Shards    int       `json:"shards"`
	CellBytes int       `json:"cell_bytes"` // longest value that the cluster stored
	Begun     time.Time `json:"begun"`
}

// Object is one key with its value.
type Object struct {
	Key     wire.Key
	Version uint64 // for people: it is not restored
	Value   []byte
}

// Totals count the contents of a snapshot.
type Totals struct {
	Objects    uint64 `json:"objects"`
	ValueBytes uint64 `json:"value_bytes"`
	Blocks     uint64 `json:"blocks"`
}
