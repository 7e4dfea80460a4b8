package store

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

// Formation holds the settings that a cluster is formed with. All controllers must be started with the same.
type Formation struct {
	Settings    reconfig.Settings
	Controllers reconfig.ControllerSet
	FormWith    int // nodes that must have joined before the shards get their chains
}

// or fills zero fields from defaults.
func (f *Formation) or(defaults *Formation) Formation {
	s, d := f.Settings, defaults.Settings
	out := Formation{
		Settings: reconfig.Settings{
			Cluster: cmp.Or(s.Cluster, d.Cluster), Shards: cmp.Or(s.Shards, d.Shards), Replicas: cmp.Or(s.Replicas, d.Replicas),
			Spread: cmp.Or(s.Spread, d.Spread), CellBytes: cmp.Or(s.CellBytes, d.CellBytes),
			Heartbeat: cmp.Or(s.Heartbeat, d.Heartbeat), Lease: cmp.Or(s.Lease, d.Lease), Suspect: cmp.Or(s.Suspect, d.Suspect),
			Tags:     cmp.Or(s.Tags, d.Tags),
			LeaseMax: cmp.Or(s.LeaseMax, d.LeaseMax), SuspectMax: cmp.Or(s.SuspectMax, d.SuspectMax), Sure: cmp.Or(s.Sure, d.Sure),
		},
		Controllers: f.Controllers, FormWith: cmp.Or(f.FormWith, defaults.FormWith),
	}
	if len(out.Controllers.Members) == 0 {
		out.Controllers = defaults.Controllers
	}
	return out
}

// agrees returns an error if a controller's settings that are not zero differ from the cluster's.
// The number of replicas may have changed since then, and the times have if they are known to.
func (f *Formation) agrees(formed *Formation, cluster string) error {
	want, is := &f.Settings, &formed.Settings
	var differ []string
	differs := func(what string, want, is any, zero bool) {
		if !zero && want != is {
			differ = append(differ, fmt.Sprintf("%s is %v, not %v", what, is, want))
		}
	}
	differs("--shards", want.Shards, is.Shards, want.Shards == 0)
	differs("--spread", want.Spread, is.Spread, want.Spread == "")
	differs("--cell-bytes", want.CellBytes, is.CellBytes, want.CellBytes == 0)
	differs("--tags", want.Tags.On, is.Tags.On, is.Tags.Since != 0 || !want.Tags.On)
	timesChanged := is.Longest != 0
	differs("--beat", want.Heartbeat, is.Heartbeat, timesChanged || want.Heartbeat == 0)
	differs("--lease", want.Lease, is.Lease, timesChanged || want.Lease == 0)
	differs("--suspect", want.Suspect, is.Suspect, timesChanged || want.Suspect == 0)
	differs("--lease-max", want.LeaseMax, is.LeaseMax, timesChanged || want.LeaseMax == 0)
	differs("--suspect-max", want.SuspectMax, is.SuspectMax, timesChanged || want.SuspectMax == 0)
	differs("--sure", want.Sure, is.Sure, timesChanged || want.Sure == 0)
	unchanged := formed.Controllers.Since == 0
	if unchanged && len(f.Controllers.Members) > 0 && f.Controllers.Steps(&formed.Controllers) {
		return fmt.Errorf("the cluster %q in this etcd has the controllers %s, but this one was started with %s: choose another name "+
			"with --cluster for another cluster, or use the same controllers: %w", cluster,
			strings.Join(formed.Controllers.Addresses(), ","), strings.Join(f.Controllers.Addresses(), ","), ErrForeign)
	}
	if len(differ) > 0 {
		return fmt.Errorf("the cluster %q was formed otherwise: %s: leave these flags out, or choose another name with --cluster: %w",
			cluster, strings.Join(differ, "; "), ErrForeign)
	}
	return nil
}
