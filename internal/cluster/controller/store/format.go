package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/wire"
)

// formatVersion is of everything stored, but for settings whose times or tags were changed, and for pages of shards with
// floors. A reader takes these and lower ones.
const (
	formatVersion = 1
	timesVersion  = 2
	floorsVersion = 3
	tagsVersion   = 4
)

// ErrNewer says that a newer release wrote the stored data.
var ErrNewer = errors.New("this was written by a newer release of netcraq: upgrade this controller")

type settingsRecord struct {
	Version   int    `json:"version"`
	Cluster   string `json:"cluster"`
	Shards    int    `json:"shards"`
	Replicas  int    `json:"replicas"`
	Spread    string `json:"spread,omitempty"`
	CellBytes int    `json:"cell_bytes"`
	BeatUs    int64  `json:"beat_us"`
	LeaseUs   int64  `json:"lease_us"`
	SuspectUs int64  `json:"suspect_us"`
	// Missing in clusters of older versions.
	LeaseMaxUs   int64    `json:"lease_max_us,omitempty"`
	SuspectMaxUs int64    `json:"suspect_max_us,omitempty"`
	SureUs       int64    `json:"sure_us,omitempty"`
	LongestUs    int64    `json:"longest_us,omitempty"`
	Controllers  []string `json:"controllers"`
	FormWith     int      `json:"form_with"`
	Tags         bool     `json:"tags,omitempty"` // the aim
	// Missing where the tags are as the cluster was formed with.
	TagPhase  wire.Tags `json:"tag_phase,omitempty"`
	TagsSince uint64    `json:"tags_since,omitempty"`
}

type changeRecord struct {
	Version int    `json:"version"`
	Change  uint64 `json:"change"`
}

type leaderRecord struct {
	Version int    `json:"version"`
	Address string `json:"address"`
	Claim   uint64 `json:"claim,string"` // drawn for each claim, so that a controller knows its own
}

type nodeRecord struct {
	Version     int               `json:"version"`
	ID          reconfig.NodeID   `json:"id"`
	Name        string            `json:"name"`
	Addr        netip.AddrPort    `json:"addr"`
	API         string            `json:"api"`
	Labels      map[string]string `json:"labels,omitempty"`
	Capacity    uint32            `json:"capacity"`
	Incarnation uint64            `json:"incarnation,string"`
	Standing    reconfig.Standing `json:"standing"`
	Barred      uint64            `json:"barred,omitempty"`
}

type pageRecord struct {
	Version int           `json:"version"`
	Shards  []shardRecord `json:"shards"`
}

type shardRecord struct {
	Epoch   uint32            `json:"epoch"`
	Members []reconfig.NodeID `json:"members,omitempty"`
	Learner reconfig.NodeID   `json:"learner,omitempty"`
	Hold    reconfig.NodeID   `json:"hold,omitempty"`
	Extra   uint8             `json:"extra,omitempty"`
	Fresh   bool              `json:"fresh,omitempty"`
	Lost    bool              `json:"lost,omitempty"`
	Born    uint32            `json:"born,omitempty"`
	Floor   uint64            `json:"floor,omitempty,string"`
	Bar     uint64            `json:"bar,omitempty,string"`
	Swept   uint32            `json:"swept,omitempty"`
}

// encode writes a record; none of them can fail.
func encode(record any) string {
	text, err := json.Marshal(record)
	if err != nil {
		panic("store: " + err.Error())
	}
	return string(text)
}

// decode reads a record, after its version.
func decode(key string, text []byte, record any) error {
	var stamp struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &stamp); err != nil || stamp.Version < 1 {
		return fmt.Errorf("etcd key %s holds %.40q, which netcraq did not write", key, text)
	}
	if stamp.Version > tagsVersion {
		return fmt.Errorf("etcd key %s has format %d, this release knows %d: %w", key, stamp.Version, tagsVersion, ErrNewer)
	}
	if err := json.Unmarshal(text, record); err != nil {
		return fmt.Errorf("etcd key %s: %w", key, err)
	}
	return nil
}

func recordOfFormation(f *Formation) settingsRecord {
	s := &f.Settings
	version := formatVersion
	if s.Longest != 0 { // controllers that do not know of it would take leases for over that are not (L5)
		version = timesVersion
	}
	tags := settingsRecord{Tags: s.Tags.On}
	if s.Tags.Since != 0 { // controllers that know of no phases would tell nodes to be in another one
		version, tags.TagPhase, tags.TagsSince = tagsVersion, s.Tags.Phase, s.Tags.Since
	}
	return settingsRecord{
		Version: version, Cluster: s.Cluster, Shards: s.Shards, Replicas: s.Replicas, Spread: s.Spread, CellBytes: s.CellBytes,
		BeatUs: s.Heartbeat.Microseconds(), LeaseUs: s.Lease.Microseconds(), SuspectUs: s.Suspect.Microseconds(),
		LeaseMaxUs: s.LeaseMax.Microseconds(), SuspectMaxUs: s.SuspectMax.Microseconds(), SureUs: s.Sure.Microseconds(),
		LongestUs: s.Longest.Microseconds(), Controllers: f.Controllers, FormWith: f.FormWith,
		Tags: tags.Tags, TagPhase: tags.TagPhase, TagsSince: tags.TagsSince,
	}
}

func (r *settingsRecord) tags() reconfig.TagStep {
	if r.TagsSince == 0 {
		return reconfig.FormedTags(r.Tags)
	}
	return reconfig.TagStep{Phase: r.TagPhase, On: r.Tags, Since: r.TagsSince}
}

func (r *settingsRecord) formation() Formation {
	return Formation{
		Settings: reconfig.Settings{
			Cluster: r.Cluster, Shards: r.Shards, Replicas: r.Replicas, Spread: r.Spread, CellBytes: r.CellBytes,
			Heartbeat: microseconds(r.BeatUs), Lease: microseconds(r.LeaseUs), Suspect: microseconds(r.SuspectUs), Tags: r.tags(),
			LeaseMax:   cmp.Or(microseconds(r.LeaseMaxUs), reconfig.DefaultLeaseMax),
			SuspectMax: cmp.Or(microseconds(r.SuspectMaxUs), reconfig.DefaultSuspectMax),
			Sure:       cmp.Or(microseconds(r.SureUs), reconfig.DefaultSure),
			Longest:    microseconds(r.LongestUs),
		},
		Controllers: r.Controllers, FormWith: r.FormWith,
	}
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func recordOfNode(n *reconfig.Node) nodeRecord {
	return nodeRecord{
		Version: formatVersion, ID: n.ID, Name: n.Name, Addr: n.Addr, API: n.API, Labels: n.Labels, Capacity: n.Capacity,
		Incarnation: n.Incarnation, Standing: n.Standing, Barred: n.FencedBy,
	}
}

func (r *nodeRecord) node() *reconfig.Node {
	return &reconfig.Node{
		ID: r.ID, Name: r.Name, Addr: r.Addr, API: r.API, Labels: r.Labels, Capacity: r.Capacity,
		Incarnation: r.Incarnation, Standing: r.Standing, FencedBy: r.Barred,
	}
}

func recordOfPage(shards []reconfig.Shard) pageRecord {
	page := pageRecord{Version: formatVersion, Shards: make([]shardRecord, len(shards))}
	for i, s := range shards {
		page.Shards[i] = shardRecord(s)
		if s.Floor != 0 { // a controller that does not know of floors would order versions below them
			page.Version = floorsVersion
		}
	}
	return page
}
