package p4

import (
	"slices"
	"strings"
	"testing"

	artefacts "github.com/netcraq/netcraq/p4"
)

// TestNames: the compiled program has all that the control plane names.
func TestNames(t *testing.T) {
	text := string(artefacts.Program)
	tables := []string{tableLocal, tableShards, tableMembers, tableObjects, tableRoutes, tableTransit, tableGroup}
	actions := []string{actionNode, actionChain, actionMember, actionObject, actionVia, actionOnward, actionCopy}
	registers := append(slices.Clone(objectArrays), regOutcomes, regLease, regFull, regShardReads, regShardWrites,
		regSessionSeq, regSessionVersion, regSessionResult, regSessionKey, regSessionOp, regSessionStatus, regSessionEntriesUsed,
		regSessionID+"0", regSessionID+"3", regSessionShard+"0", regSessionShard+"3")
	for kind, names := range map[string][]string{"table": tables, "action": actions, "regarray": registers} {
		for _, name := range names {
			if !strings.Contains(text, "\n"+kind+" "+name+" ") {
				t.Errorf("the program has no %s %s", kind, name)
			}
		}
	}
}
