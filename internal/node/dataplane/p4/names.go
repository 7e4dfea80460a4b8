package p4

// Names that p4c gives tables, actions and registers of p4/netcraq.p4: those of the controls that they stand in, too.
const (
	tableLocal   = "frame_local"
	tableShards  = "shard_shards"
	tableMembers = "shard_members"
	tableObjects = "state_objects"
	tableRoutes  = "route_routes"

	actionNode   = "frame_node_0"
	actionChain  = "shard_chain_0"
	actionMember = "shard_member_0"
	actionObject = "state_object_0"
	actionVia    = "route_via_0"

	regOutcomes    = "outcomes_0"
	regLease       = "state_lease"
	regFull        = "state_objects_full"
	regShardReads  = "state_shard_reads"
	regShardWrites = "state_shard_writes"

	regLaneSession = "state_lane_session" // and the way
	regLaneShard   = "state_lane_shard"   // and the way
	regLaneSeq     = "state_lane_seq"
	regLaneVersion = "state_lane_version"
	regLaneResult  = "state_lane_result"
	regLaneKey     = "state_lane_key"
	regLaneOp      = "state_lane_op"
	regLaneStatus  = "state_lane_status"
	regLanesUsed   = "state_lanes_used"
)

// objectArrays are the registers of a place, in the order of [cell].
var objectArrays = []string{
	"state_object_version", "state_object_committed", "state_object_bytes", "state_object_epoch",
	"state_value0", "state_value1", "state_value2", "state_value3",
	"state_value4", "state_value5", "state_value6", "state_value7",
	"state_value_four", "state_value_two", "state_value_one",
	"state_object_reads", "state_object_writes",
}
