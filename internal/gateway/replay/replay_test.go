package replay

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/gateway/placement"
)

func options(capacity int) *Options {
	o := &Options{Placement: placement.Defaults(), Keys: 100, HalfLife: 7, Every: 0.1, Delay: 0.05}
	o.Placement.Capacity = capacity
	return o
}

const header = "# a remark\nt_s,conn,method,op,key,range,lease,succ,vlen\n"

func TestParse(t *testing.T) {
	trace, err := parse(strings.NewReader(header +
		"2,1,KV/Txn,txn-update,a,single,7,true,10\n" +
		"1,1,KV/Range,get,a,single,,,5\n" +
		"3,1,KV/Txn,txn-delete,a,single,,false,0\n" +
		"4,1,KV/Txn,txn-delete,a,single,,true,0\n" +
		"5,1,KV/Range,list,a/,prefix,,,0\n" +
		"6,1,Watch/Watch,watch-create,a/,prefix,,,0\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := "[{1 a false false false 5} {2 a true false true 10} {4 a true true false 0}]"
	if got := fmt.Sprint(trace.Events); got != want || trace.Other != 1 {
		t.Errorf("%v, %d others; want %v", got, trace.Other, want)
	}
	for _, bad := range []string{"", "t_s,key\n1,a\n", header + "x,1,KV/Range,get,a,single,,,5\n",
		header + "1,1,KV/Range,get,a,single,,,?\n"} {
		if _, err := parse(strings.NewReader(bad)); err == nil {
			t.Errorf("no trace: %q", bad)
		}
	}
}

// shift is a trace whose hot keys are others in its second half; room is for one half's.
func shift() *Trace {
	var trace Trace
	for i := range 6000 {
		at := float64(i) / 50
		key := fmt.Sprintf("%d-%d", int(at)/60, i%10)
		trace.Events = append(trace.Events, Event{At: at, Key: key, Bytes: 100})
	}
	return &trace
}

func TestHotSetsAreFollowed(t *testing.T) {
	o := options(10 * (192 + 100))
	r := Run(shift(), o)
	if r.Reads != 6000 || math.Abs(r.BestFixed-0.5) > 0.001 {
		t.Errorf("the best fixed set answers half: %+v", r)
	}
	if r.HitShare < 0.92 || r.Adapt > 10 || r.MostBytes > o.Placement.Capacity {
		t.Errorf("both sets should be in place in turn: %+v", r)
	}
	if math.IsNaN(r.HitShare) || r.Placements != 20 || r.Removals != 10 {
		t.Errorf("ten keys come, and ten more, for which the first go: %+v", r)
	}
}

func TestLeasedKeysAreNoHits(t *testing.T) {
	trace := shift()
	for i := range 10 {
		trace.Events = append([]Event{{Key: fmt.Sprintf("0-%d", i), Write: true, Leased: true, Bytes: 100}}, trace.Events...)
	}
	if r := Run(trace, options(1<<20)); r.HitShare > 0.5 || r.BestFixed > 0.501 {
		t.Errorf("half of the keys have a lease: %+v", r)
	}
}

func TestEmptyTrace(t *testing.T) {
	if r := Run(&Trace{}, options(1)); *r != (Result{}) {
		t.Errorf("%+v", r)
	}
}
