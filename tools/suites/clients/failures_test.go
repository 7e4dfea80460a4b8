package clients

// Reasons of more than one client.
const (
	noHash = "keyspaces have HashKV, not Hash"
	noMove = "a keyspace has no leader that a client can choose"
)

var inMemory = []kind{memory}

const maintenance = "tests.integration.test_maintenance: "

var aetcdFailures = []failure{
	{
		tests: []string{maintenance + "test_snapshot"}, kinds: kinds,
		why: "the test uses `etcdctl snapshot status`, which etcdctl 3.6 does not have",
	},
	{tests: []string{maintenance + "test_hash"}, kinds: inMemory, why: noHash},
}

var rustFailures = []failure{
	{tests: []string{"test_hash"}, kinds: inMemory, why: noHash},
	{tests: []string{"test_move_leader"}, kinds: inMemory, why: noMove},
}
