package etcdstudy

import "strings"

// Stage is a part of the way that a put takes through etcd.
type Stage string

// Stages, in the order in which a put passes them. [StageRuntime] is work of the Go runtime
// outside all stages, such as garbage collection and scheduling.
const (
	StageAPI     Stage = "API"
	StageRaft    Stage = "Raft"
	StageWAL     Stage = "WAL"
	StageMVCC    Stage = "MVCC"
	StageBackend Stage = "backend"
	StageRuntime Stage = "runtime"
)

// Stages lists all.
var Stages = []Stage{StageAPI, StageRaft, StageWAL, StageMVCC, StageBackend, StageRuntime}

// belongs maps prefixes of function names to stages. The first match counts, so special prefixes
// precede general ones.
var belongs = []struct {
	prefix string
	stage  Stage
}{
	{server + "storage/wal", StageWAL},
	{server + "storage/mvcc", StageMVCC},
	{server + "storage/backend", StageBackend},
	{server + "storage/schema", StageBackend},
	{"go.etcd.io/bbolt", StageBackend},
	{server + "storage", StageRaft}, // log and snapshots above the WAL
	{server + "lease", StageMVCC},
	{server + "etcdserver/apply", StageMVCC},
	{server + "etcdserver/txn", StageMVCC},
	{server + "etcdserver.(*EtcdServer).apply", StageMVCC},
	{server + "etcdserver.(*EtcdServer).run", StageMVCC}, // hands entries on to be applied
	{server + "etcdserver/api/rafthttp", StageRaft},
	{server + "etcdserver/api/snap", StageRaft},
	{server + "etcdserver.(*raftNode)", StageRaft},
	{"go.etcd.io/raft/", StageRaft},
	{server + "etcdserver/api", StageAPI},
	{server + "etcdserver", StageAPI},
	{server + "embed", StageAPI},
}

const server = "go.etcd.io/etcd/server/v3/"

// libraries count as the API where no function of etcd is on the stack: they read requests and
// write answers in goroutines of their own. Raft's messages use them with Raft's functions on the
// stack.
var libraries = []string{
	"google.golang.org/grpc", "golang.org/x/net/", "net/http", "github.com/soheilhy/cmux", "internal/poll",
	"net.",
}

// stageOf says to which stage a stack belongs, given innermost first: to that of the innermost
// function that is etcd's own. So time that Raft spends in the memory allocator, the network or the
// kernel is Raft's.
func stageOf(stack []string) Stage {
	for _, function := range stack {
		for _, b := range belongs {
			if strings.HasPrefix(function, b.prefix) {
				return b.stage
			}
		}
	}
	for _, function := range stack {
		for _, library := range libraries {
			if strings.HasPrefix(function, library) {
				return StageAPI
			}
		}
	}
	return StageRuntime
}
