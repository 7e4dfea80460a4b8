package admin

import (
	"slices"

	"github.com/netcraq/netcraq/api/controllerv1"
)

// AllVote reports whether no controller is about to be added, replaced or removed.
func AllVote(out *controllerv1.ControllersResponse) bool {
	return !slices.ContainsFunc(out.GetMembers(), func(m *controllerv1.EtcdMember) bool {
		return m.GetLearner() || !m.GetStarted() || m.GetJoining() || m.GetLeaving()
	})
}
