package etcdstudy

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/netcraq/netcraq/eval/peer/etcd"
)

// smallLoad is enough to see that something works.
var smallLoad = Load{Clients: 20, Duration: 300 * time.Millisecond, Seed: 1}

// needServer finds etcd, or skips the test.
func needServer(t *testing.T) string {
	t.Helper()
	path, err := etcd.Find()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return path
}

// harness opens a cluster that is closed with the test.
func harness(t *testing.T, o HarnessOptions) *Harness {
	t.Helper()
	o.Binary, o.Unlimited = needServer(t), true
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	r, err := OpenHarness(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestMixedTransactionsAreCounted(t *testing.T) {
	r := harness(t, HarnessOptions{Members: 3, Conns: 6})
	for _, consistency := range []Consistency{Linearizable, Serializable} {
		cell, err := r.TxnMixed(t.Context(), consistency, smallLoad)
		if err != nil {
			t.Fatal(err)
		}
		if cell.Members != 3 || cell.Errors != 0 || cell.Reads <= 0 || cell.Writes <= 0 ||
			cell.PerSecond != cell.Reads+cell.Writes ||
			cell.P50 <= 0 || cell.P50 > cell.P99 ||
			cell.Throttled != 0 {
			t.Errorf("%+v", cell)
		}
	}
}

func TestMembersAreComparedInRounds(t *testing.T) {
	needServer(t)
	var said int
	result, err := Members(t.Context(), MembersOptions{
		Harness: HarnessOptions{
			Unlimited: true,
			Conns:     4,
		}, Load: smallLoad, Sizes: []int{1, 2, 3}, Rounds: 2, Progress: func(string) { said++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Cells) != 12 || said != 6 || result.Cells[0].Members != 1 || result.Cells[6].Members != 3 {
		t.Errorf("%d cells, said %d: %+v", len(result.Cells), said, result.Cells)
	}
	for _, law := range result.Laws {
		if law.Fitted == nil || law.Fitted.Points != 6 || law.Fitted.Intervals == nil || law.TheirPeak < 3 ||
			law.TheirPeak > 3.2 {
			t.Errorf("%+v", law)
		}
	}
}

// A law is fitted to the cells of its own kind of reads, and where there are too few it says so.
func TestLawsOfCells(t *testing.T) {
	var cells []Cell
	for _, n := range []int{1, 2, 3, 4, 5, 7, 9, 11} {
		for consistency, law := range Published {
			cells = append(cells, Cell{Members: n, Consistency: consistency, PerSecond: law.At(float64(n))})
		}
	}
	for consistency, law := range Published {
		got := FitMembers(cells, consistency, 1)
		if got.Fitted == nil || got.Peak == nil || *got.Peak < got.TheirPeak-0.01 || *got.Peak > got.TheirPeak+0.01 {
			t.Errorf("%s: %+v became %+v", consistency, law, got)
		}
	}
	if few := FitMembers(cells[:4], Linearizable, 1); few.Fitted != nil || few.Why == "" {
		t.Errorf("%+v", few)
	}
}

func TestLoadsThatNobodyCanMeasureAreRefused(t *testing.T) {
	for _, l := range []Load{{Clients: -1}, {KeyBytes: 1}, {ReadShare: 2}, {ValueBytes: -1}} {
		if err := l.withDefaults().validate(); err == nil {
			t.Errorf("%+v passes", l)
		}
	}
	if share := Share(); share <= 0 || share > 1 {
		t.Errorf("share %v", share)
	}
}
