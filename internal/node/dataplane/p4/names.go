package p4

import "slices"

// Names that p4c gives tables, actions and registers of p4/netcraq.p4: those of the controls that they stand in, too.
const (
	tableLocal   = "frame_local"
	tableShards  = "shard_shards"
	tableMembers = "shard_members"
	tableObjects = "state_objects"
	tableRoutes  = "route_routes"
	tableGroup   = "copy_group"
	tableTransit = "route_transit"

	actionNode   = "frame_node_0"
	actionChain  = "shard_chain_0"
	actionMember = "shard_member_0"
	actionObject = "state_object_0"
	actionVia    = "route_via_0"
	actionCopy   = "copy_member_at_0"
	actionOnward = "route_onward_0"

	regOutcomes    = "outcomes_0"
	regLease       = "state_lease"
	regFull        = "state_objects_full"
	regShardReads  = "state_shard_reads"
	regShardWrites = "state_shard_writes"

	regSessionID          = "state_session_id"    // and the way
	regSessionShard       = "state_session_shard" // and the way
	regSessionSeq         = "state_session_seq"
	regSessionVersion     = "state_session_version"
	regSessionResult      = "state_session_result"
	regSessionKey         = "state_session_key"
	regSessionOp          = "state_session_op"
	regSessionStatus      = "state_session_status"
	regSessionEntriesUsed = "state_session_entries_used"
)

// objectArrays are the registers of a place, in the order of [cell].
var objectArrays = slices.Concat(
	[]string{"state_object_version", "state_object_committed", "state_object_bytes", "state_object_epoch"},
	valueArrays("state_value"), []string{"state_object_reads", "state_object_writes"},
)

func valueArrays(prefix string) []string {
	var names []string
	for _, end := range ValueArrays {
		names = append(names, prefix+end)
	}
	return names
}
