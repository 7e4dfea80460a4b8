package p4

import (
	"slices"
	"strconv"
)

// Names that the P4Info of p4/netcraq.p4 has for tables, actions, registers and counters.
const (
	tableLocal   = "Node.frame.local"
	tableShards  = "Node.shard.shards"
	tableMembers = "Node.shard.members"
	tableObjects = "Node.state.objects"
	tableGroup   = "Node.copy.group"

	actionNode   = "Node.frame.node"
	actionChain  = "Node.shard.chain"
	actionMember = "Node.shard.member"
	actionObject = "Node.state.object"
	actionCopy   = "Node.copy.member_at"

	regOutcomes    = "Node.outcomes"
	regLease       = "Node.state.lease"
	regNodeLease   = "Node.state.node_lease"
	regFull        = "Node.state.objects_full"
	regShardReads  = "Node.state.shard_reads"
	regShardWrites = "Node.state.shard_writes"

	regSessionSeq         = "Node.state.session_seq"
	regSessionVersion     = "Node.state.session_version"
	regSessionResult      = "Node.state.session_result"
	regSessionKey         = "Node.state.session_key"
	regSessionOp          = "Node.state.session_op"
	regSessionStatus      = "Node.state.session_status"
	regSessionEntriesUsed = "Node.state.session_entries_used"
)

// Names of the ways of a program, within its control.
const (
	tableRoutes  = "route.routes"
	tableTransit = "route.transit"
	actionVia    = "route.via"
	actionOnward = "route.onward"

	nodeControl = "Node."
)

// objectArrays are the registers of a place, in the order of [cell].
var objectArrays = slices.Concat(
	[]string{
		"Node.state.object_version", "Node.state.object_committed", "Node.state.object_bytes", "Node.state.object_epoch",
	},
	valueArrays("Node.state.value"), []string{"Node.state.object_reads", "Node.state.object_writes"},
)

// Registers of each way.
var (
	sessionIDs    = waysOf("Node.state.session_id")
	sessionShards = waysOf("Node.state.session_shard")
)

func waysOf(prefix string) (names [sessionWays]string) {
	for way := range names {
		names[way] = prefix + strconv.Itoa(way)
	}
	return names
}

// countArrays are the counters of a place.
var countArrays = objectArrays[len(objectArrays)-2:]

// versionArrays are those of versions.
var versionArrays = objectArrays[:2]

func valueArrays(prefix string) []string {
	var names []string
	for _, end := range ValueArrays {
		names = append(names, prefix+end)
	}
	return names
}
