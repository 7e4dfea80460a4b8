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

// formatVersion is of everything stored, but for settings whose times, tags or controllers were changed, and for pages of
// shards with floors. A reader takes these and lower ones.
const (
	formatVersion = 1
	timesVersion  = 2
	floorsVersion = 3
	tagsVersion   = 4
	setVersion    = 5
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
	// Members are the controllers with their names; missing in clusters of older versions.
	Members []controllerRecord `json:"members,omitempty"`
	// Missing where the controllers are those that the cluster was formed with.
	Joining          *controllerRecord `json:"joining,omitempty"`
	Leaving          *controllerRecord `json:"leaving,omitempty"`
	ControllersSince uint64            `json:"controllers_since,omitempty"`
}

type controllerRecord struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Peer    string `json:"peer,omitempty"`
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
	Cordoned    bool              `json:"cordoned,omitempty"`
}

type pageRecord struct {
	Version int           `json:"version"`
	Shards  []shardRecord `json:"shards"`
}

type shardRecord struct {
	Epoch     uint32            `json:"epoch"`
	Members   []reconfig.NodeID `json:"members,omitempty"`
	Learner   reconfig.NodeID   `json:"learner,omitempty"`
	FrozenFor reconfig.NodeID   `json:"hold,omitempty"`
	Extra     uint8             `json:"extra,omitempty"`
	Fresh     bool              `json:"fresh,omitempty"`
	Lost      bool              `json:"lost,omitempty"`
	Born      uint32            `json:"born,omitempty"`
	Floor     uint64            `json:"floor,omitempty,string"`
	Bar       uint64            `json:"bar,omitempty,string"`
	Swept     uint32            `json:"swept,omitempty"`
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
	var format struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &format); err != nil || format.Version < 1 {
		return fmt.Errorf("etcd key %s holds %.40q, which netcraq did not write", key, text)
	}
	if format.Version > setVersion {
		return fmt.Errorf("etcd key %s has format %d, this release knows %d: %w", key, format.Version, setVersion, ErrNewer)
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
	if f.Controllers.Since != 0 { // controllers that do not know of it would grant leases as ones of another set (L7)
		version = setVersion
	}
	r := settingsRecord{
		Version: version, Cluster: s.Cluster, Shards: s.Shards, Replicas: s.Replicas, Spread: s.Spread, CellBytes: s.CellBytes,
		BeatUs: s.Heartbeat.Microseconds(), LeaseUs: s.Lease.Microseconds(), SuspectUs: s.Suspect.Microseconds(),
		LeaseMaxUs: s.LeaseMax.Microseconds(), SuspectMaxUs: s.SuspectMax.Microseconds(), SureUs: s.Sure.Microseconds(),
		LongestUs: s.Longest.Microseconds(), Controllers: f.Controllers.Addresses(), FormWith: f.FormWith,
		Tags: tags.Tags, TagPhase: tags.TagPhase, TagsSince: tags.TagsSince,
	}
	r.setControllers(&f.Controllers)
	return r
}

func (r *settingsRecord) setControllers(s *reconfig.ControllerSet) {
	one := func(c reconfig.Controller) *controllerRecord {
		if c == (reconfig.Controller{}) {
			return nil
		}
		return &controllerRecord{c.Name, c.Address, c.Peer}
	}
	for _, m := range s.Members {
		r.Members = append(r.Members, *one(m))
	}
	r.Joining, r.Leaving, r.ControllersSince = one(s.Joining), one(s.Leaving), s.Since
}

func (r *settingsRecord) controllers() reconfig.ControllerSet {
	one := func(c *controllerRecord) reconfig.Controller {
		if c == nil {
			return reconfig.Controller{}
		}
		return reconfig.Controller{Name: c.Name, Address: c.Address, Peer: c.Peer}
	}
	s := reconfig.FormedControllers(r.Controllers...)
	if len(r.Members) > 0 {
		s.Members = nil
	}
	for i := range r.Members {
		s.Members = append(s.Members, one(&r.Members[i]))
	}
	s.Joining, s.Leaving, s.Since = one(r.Joining), one(r.Leaving), r.ControllersSince
	return s
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
		Controllers: r.controllers(), FormWith: r.FormWith,
	}
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func recordOfNode(n *reconfig.Node) nodeRecord {
	return nodeRecord{
		Version: formatVersion, ID: n.ID, Name: n.Name, Addr: n.Addr, API: n.API, Labels: n.Labels, Capacity: n.Capacity,
		Incarnation: n.Incarnation, Standing: n.Standing, Barred: n.FencedBy, Cordoned: n.Cordoned,
	}
}

func (r *nodeRecord) node() *reconfig.Node {
	return &reconfig.Node{
		ID: r.ID, Name: r.Name, Addr: r.Addr, API: r.API, Labels: r.Labels, Capacity: r.Capacity,
		Incarnation: r.Incarnation, Standing: r.Standing, FencedBy: r.Barred, Cordoned: r.Cordoned,
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
