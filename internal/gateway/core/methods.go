package core

// Execution says how a gateway that caches executes a call of etcd's API.
type Execution uint8

const (
	// Refused is a call that the gateway does not know. etcd might write keys for it, without INTENT.
	Refused Execution = iota
	// Passed is a call that etcd executes as it is. It changes no key, or only keys with a lease, which no object shows.
	Passed
	// Guarded is a call that may write any key, with INTENT, the guard and RESOLVE.
	Guarded
	// Served is a call for which etcd would write keys on its own. The gateway executes it, by guarded calls.
	Served
)

// executions has every method of etcd's API, by service.
var executions = map[string]map[string]Execution{
	"etcdserverpb.KV": {
		"Range": Passed, "RangeStream": Passed, "Put": Guarded, "DeleteRange": Guarded, "Txn": Guarded, "Compact": Passed,
	},
	"etcdserverpb.Watch": {"Watch": Passed},
	"etcdserverpb.Lease": { // the end of a lease deletes its keys
		"LeaseGrant": Passed, "LeaseRevoke": Passed, "LeaseKeepAlive": Passed, "LeaseTimeToLive": Passed, "LeaseLeases": Passed,
	},
	"etcdserverpb.Cluster": {
		"MemberAdd": Passed, "MemberRemove": Passed, "MemberUpdate": Passed, "MemberList": Passed, "MemberPromote": Passed,
	},
	"etcdserverpb.Maintenance": {
		"Alarm": Passed, "Status": Passed, "Defragment": Passed, "Hash": Passed, "HashKV": Passed, "Snapshot": Passed,
		"MoveLeader": Passed, "Downgrade": Passed,
	},
	"etcdserverpb.Auth": {
		"AuthEnable": Passed, "AuthDisable": Passed, "AuthStatus": Passed, "Authenticate": Passed, "UserAdd": Passed,
		"UserGet": Passed, "UserList": Passed, "UserDelete": Passed, "UserChangePassword": Passed, "UserGrantRole": Passed,
		"UserRevokeRole": Passed, "RoleAdd": Passed, "RoleGet": Passed, "RoleList": Passed, "RoleDelete": Passed,
		"RoleGrantPermission": Passed, "RoleRevokePermission": Passed,
	},
	"v3lockpb.Lock": {"Lock": Served, "Unlock": Served},
	"v3electionpb.Election": {
		"Campaign": Served, "Proclaim": Served, "Leader": Served, "Observe": Served, "Resign": Served,
	},
	"grpc.health.v1.Health": {"Check": Passed, "List": Passed, "Watch": Passed},
}

// ExecutionOf says how a method of a service is executed, with some rules switched off.
func ExecutionOf(service, method string, without Rule) Execution {
	e := executions[service][method]
	if e == Served && without&Services != 0 {
		return Passed
	}
	return e
}
