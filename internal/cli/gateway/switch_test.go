package gateway

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/gateway/pages"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// TestReadsAtTheSwitch: the counters of XDP and P4 nodes show the gateway that clients read a key at the chain.
func TestReadsAtTheSwitch(t *testing.T) {
	for plane, need := range map[string]func(testing.TB){"xdp": func(testing.TB) {}, "p4": enginetest.Need} {
		t.Run(plane, func(t *testing.T) {
			name := clitest.LabName(t, "w")
			need(t)
			clitest.MustRun(t, "lab", "--name", name, "up", "--plane", plane, "--nodes", "2")
			l, err := lab.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			testReadsAtTheSwitch(t, l.ClusterFile())
		})
	}
}

func testReadsAtTheSwitch(t *testing.T, file string) {
	g := start(t, "--cluster", file, "--etcd-endpoints", startEtcd(t), "--pins", "")
	defer func() {
		g.stop()
		if err := <-g.ended; err != nil {
			t.Error(err)
		}
	}()
	g.says(t, servesMessage)
	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(g.String())[1]
	url := "http://" + address
	put(t, url, "k", "v")
	asks := pages.Client{Gateways: []string{address}, Timeout: time.Minute}
	explain := func() placement.Explanation {
		list, _, err := asks.Explain(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		return list[0].Explanation
	}
	var header struct {
		Header struct {
			Cluster uint64 `json:"cluster_id,string"`
		} `json:"header"`
	}
	limit := time.Now().Add(clitest.Formed)
	for e := explain(); !e.Placed; e = explain() {
		if time.Now().After(limit) {
			t.Fatalf("%+v\n%s", e, g)
		}
		if err := json.Unmarshal([]byte(call(t, url, "range", map[string][]byte{"key": []byte("k")})), &header); err != nil {
			t.Fatal(err)
		}
	}
	cluster, err := client.LoadCluster(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for {
		if _, err := c.Get(t.Context(), fmt.Sprintf("etcd/%x/o/k", header.Header.Cluster)); err != nil {
			t.Fatal(err)
		}
		e := explain()
		if e.Source != placement.SourceGateway && e.Switch.Reads > 0 {
			t.Logf("%+v", e)
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%+v\n%s", e, g)
		}
	}
}
