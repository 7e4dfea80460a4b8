package p4

import (
	"slices"
	"testing"

	artefacts "github.com/netcraq/netcraq/p4"
)

// TestNames: the compiled program has all that the control plane names.
func TestNames(t *testing.T) {
	n, err := namesOf(artefacts.Program)
	if err != nil {
		t.Fatal(err)
	}
	for table, action := range map[string]string{
		tableLocal: actionNode, tableShards: actionChain, tableMembers: actionMember, tableObjects: actionObject,
		tableGroup: actionCopy, nodeControl + tableRoutes: nodeControl + actionVia,
		nodeControl + tableTransit: nodeControl + actionOnward,
	} {
		c := Change{Entry: Entry{Table: table, Action: action}}
		if _, err := n.change(&c); err != nil {
			t.Error(err)
		}
	}
	for _, array := range append(slices.Clone(objectArrays), regOutcomes, regLease, regFull, regShardReads,
		regShardWrites, regSessionSeq, regSessionVersion, regSessionResult, regSessionKey, regSessionOp, regSessionStatus,
		regSessionEntriesUsed, sessionIDs[0], sessionIDs[3], sessionShards[0], sessionShards[3]) {
		if _, err := n.array(array); err != nil {
			t.Error(err)
		}
	}
}
