package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/platform/build"
	"github.com/netcraq/netcraq/internal/platform/finding"
)

// state returns the worst state of a check's findings.
func state(list []finding.Finding, check string) finding.State {
	for _, s := range []finding.State{finding.Broken, finding.Warning, finding.Unknown, finding.OK} {
		if slices.ContainsFunc(list, func(f finding.Finding) bool { return f.Check == check && f.State == s }) {
			return s
		}
	}
	return "none"
}

func TestOfSnapshot(t *testing.T) {
	whole := func() *admin.Snapshot {
		return &admin.Snapshot{
			Replicas: 3, Tags: true, Shards: admin.ShardCounts{Total: 4, FullyReplicated: 4}, Nodes: []admin.Node{{Name: "n1", Standing: "up"}},
			Controllers: []admin.Controller{{Address: "c1", Leads: true, Version: build.Name()}},
		}
	}
	for _, c := range []struct {
		change func(*admin.Snapshot)
		check  string
		want   finding.State
	}{
		{func(*admin.Snapshot) {}, "shards", finding.OK},
		{func(s *admin.Snapshot) { s.Shards.FullyReplicated, s.Shards.Down = 3, 1 }, "shards", finding.Broken},
		{func(s *admin.Snapshot) { s.Shards.FullyReplicated, s.Shards.UnderReplicated = 3, 1 }, "shards", finding.Warning},
		{func(s *admin.Snapshot) { s.Shards.FullyReplicated, s.Shards.Changing = 3, 1 }, "shards", finding.Warning},
		{func(s *admin.Snapshot) { s.Notes = []string{"4 shards have members with the same zone"} }, "cluster", finding.Warning},
		{func(s *admin.Snapshot) { s.Nodes[0].Trouble = "it is silent" }, "node", finding.Warning},
		{func(s *admin.Snapshot) { s.Controllers = append(s.Controllers, admin.Controller{Address: "c2"}) }, "controller", finding.Warning},
		{func(s *admin.Snapshot) { s.Controllers[0].Version = "v0.0.1" }, "controller", finding.Warning},
		{func(s *admin.Snapshot) { s.Controllers[0].Version = "" }, "controller", finding.Warning},
		{func(s *admin.Snapshot) { s.Tags = false }, "tags", finding.Warning},
	} {
		s := whole()
		c.change(s)
		list := OfSnapshot(s)
		if got := state(list, c.check); got != c.want {
			t.Errorf("%s is %s, want %s: %+v", c.check, got, c.want, list)
		}
		others := slices.DeleteFunc(list, func(f finding.Finding) bool { return f.Check == c.check })
		if len(others) != finding.Count(others, finding.OK) {
			t.Errorf("%s: %+v", c.check, others)
		}
	}
}

func TestOfReports(t *testing.T) {
	for _, c := range []struct {
		report agent.Report
		want   finding.State
	}{
		{agent.Report{Plane: "xdp", Mode: "native"}, finding.OK},
		{agent.Report{Plane: "soft"}, finding.OK},
		{agent.Report{Plane: "xdp", Mode: "generic", Why: "the driver cannot"}, finding.Warning},
		{agent.Report{Plane: "soft", WaitingFor: []string{"n2"}}, finding.Warning},
		{agent.Report{Error: "connection refused"}, finding.Broken},
	} {
		if got := state(OfReports([]*agent.Report{&c.report}), "agent"); got != c.want {
			t.Errorf("%+v is %s, want %s", c.report, got, c.want)
		}
	}
}

// TestUnreachedControllers: the way from each node to each controller is looked at, not only that from here.
func TestUnreachedControllers(t *testing.T) {
	r := &agent.Report{Name: "n1", Plane: "soft", Version: build.Name(), Membership: &agent.Membership{LeaseLeftMS: 60,
		Controllers: []agent.StreamStatus{{Address: "192.0.2.1:4413"}, {Address: "192.0.2.2:4413", Trouble: "nothing answers there"}}}}
	list := OfReports([]*agent.Report{r})
	if len(list) != 2 || state(list, "agent") != finding.OK || state(list, "way to controllers") != finding.Warning ||
		!strings.HasPrefix(list[1].Text, "192.0.2.2:4413: ") {
		t.Errorf("%+v", list)
	}
}

// TestClosedWays: a node that does not reach another one of its chains is broken; a node alone has no way.
func TestClosedWays(t *testing.T) {
	names := map[string]string{"192.0.2.1:4411": "n1", "192.0.2.2:4411": "n2"}
	list := OfWays([]agent.Ways{
		{Name: "n1", Others: []agent.Way{{Addr: "192.0.2.2:4411", Answers: true}, {Addr: "192.0.2.3:4411"}}},
		{Name: "n2", Others: []agent.Way{{Addr: "192.0.2.1:4411", Answers: true}}},
		{Name: "n4", Error: "unknown method Reach"}, {Name: "n5"},
	}, names)
	want := []finding.Finding{
		{Check: "way between nodes", About: "n1", State: finding.Broken, Text: "no answer from 192.0.2.3:4411 (UDP 192.0.2.3:4411)",
			Remedy: "start them, or open their port to this node, both ways"},
		{Check: "way between nodes", About: "n2", State: finding.OK, Text: "answers from n1"},
		{Check: "way between nodes", About: "n4", State: finding.Unknown, Text: "unknown method Reach"},
	}
	if !slices.Equal(list, want) {
		t.Errorf("%+v", list)
	}
}

func TestOtherVersions(t *testing.T) {
	for version, want := range map[string]finding.State{build.Name(): "none", "v0.0.1": finding.Warning, "": finding.Warning} {
		list := OfReports([]*agent.Report{{Name: "n1", Plane: "soft", Version: version}})
		if got := state(list, "version"); got != want {
			t.Errorf("version %q is %s, want %s: %+v", version, got, want, list)
		}
	}
	if got := state(OfReports([]*agent.Report{{Error: "connection refused"}}), "version"); got != "none" {
		t.Errorf("a node that does not answer has a version, which is %s", got)
	}
}

// TestCertificatesThatEnd has the earliest end of a file's certificates judged.
func TestCertificatesThatEnd(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	file := filepath.Join(t.TempDir(), "cert.pem")
	write := func(ends ...time.Duration) {
		var text []byte
		for _, end := range ends {
			c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.Add(end)}
			der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * time.Hour
	for _, c := range []struct {
		ends []time.Duration
		want finding.State
	}{
		{[]time.Duration{365 * day}, finding.OK}, {[]time.Duration{365 * day, 3 * day}, finding.Warning},
		{[]time.Duration{-day, 365 * day}, finding.Broken}, {nil, finding.Broken},
	} {
		write(c.ends...)
		if list := Certificates(now, file); list[0].State != c.want {
			t.Errorf("%v: %+v", c.ends, list)
		}
	}
	if list := Certificates(now, file+"none"); list[0].State != finding.Broken {
		t.Errorf("%+v", list)
	}
}
