package clients

// Reasons of more than one client.
const (
	noAuth   = "keyspaces had no authentication when the table was made"
	noUpkeep = "a keyspace in memory has none of these calls"
	noLocks  = "a keyspace in memory has no services for locks and elections"
)

var inMemory = []kind{memory}

const maintenance = "tests.integration.test_maintenance: "

var aetcdFailures = []failure{
	{
		tests: []string{maintenance + "test_snapshot"}, kinds: kinds,
		why: "the test uses `etcdctl snapshot status`, which etcdctl 3.6 does not have; a keyspace in memory has no " +
			"snapshots",
	},
	{
		tests: []string{
			maintenance + "test_create_alarm_all_members", maintenance + "test_create_alarm_specific_member",
			maintenance + "test_disarm_alarm", maintenance + "test_list_alarms",
		},
		kinds: inMemory, why: "nobody can set the alarms of a keyspace in memory",
	},
	{tests: []string{maintenance + "test_hash"}, kinds: inMemory, why: noUpkeep},
	{tests: []string{"tests.integration.test_auth: test_auth"}, kinds: inMemory, why: noAuth},
}

var rustFailures = []failure{
	{tests: []string{"test_auth", "test_role", "test_user"}, kinds: inMemory, why: noAuth},
	{tests: []string{"test_election", "test_lock"}, kinds: inMemory, why: noLocks},
	{
		tests: []string{"test_defragment", "test_hash", "test_hash_kv", "test_move_leader", "test_snapshot"},
		kinds: inMemory, why: noUpkeep,
	},
}

var nodeFailures = []failure{{
	tests: []string{"authentication: admits users to their keys only", "roles and users: are made, listed and deleted"},
	kinds: inMemory, why: noAuth,
}}

var javaFailures = []failure{
	{tests: []string{"AuthTest: usersHaveTheirKeysOnly"}, kinds: inMemory, why: noAuth},
	{
		tests: []string{
			"LockTest: aLockEndsWithItsLease", "LockTest: aLockHasAKey", "LockTest: aLockHasOneHolder",
			"LockTest: anElectionHasOneLeader", "LockTest: anElectionIsObserved",
		},
		kinds: inMemory, why: noLocks,
	},
	{tests: []string{"ClusterTest: hasAHash", "ClusterTest: makesSnapshots"}, kinds: inMemory, why: noUpkeep},
}
