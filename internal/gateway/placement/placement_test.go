package placement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func options() *Options {
	o := Defaults()
	return &o
}

// find is the usage of a key; nothing if it is not known.
func find(m *Monitor, key string, now float64) Usage {
	for _, u := range m.Usages(now) {
		if u.Key == key {
			return u
		}
	}
	return Usage{}
}

func TestCountsFade(t *testing.T) {
	m := NewMonitor(4, 10)
	for range 8 {
		m.Read("a", 100, 0)
	}
	for now, want := range map[float64]float64{0: 8, 10: 4, 30: 1} {
		if got := find(m, "a", now).Reads; math.Abs(got-want) > 1e-9 {
			t.Errorf("%v s later: %v reads, not %v", now, got, want)
		}
	}
	m.Read("a", 100, 10000) // so much later that weights are scaled down
	if got := find(m, "a", 10000).Reads; math.Abs(got-1) > 1e-9 {
		t.Errorf("long after: %v reads, not 1", got)
	}
}

// TestRates: the rate of a key is that of its last events, whether these come often or seldom, and falls when none comes any more.
func TestRates(t *testing.T) {
	m := NewMonitor(4, 10)
	const end = 600
	for i := range end * 100 {
		now := float64(i) / 100
		m.Read("often", 100, now)
		if i%(60*100) == 0 {
			m.Read("seldom", 100, now)
		}
	}
	for key, want := range map[string]float64{"often": 100, "seldom": 1.0 / 60} {
		if got := find(m, key, end).ReadRate; got < want/2.5 || got > 1.1*want {
			t.Errorf("%s: %v reads a second, not %v", key, got, want)
		}
	}
	if often, seldom := find(m, "often", end+3600).ReadRate, find(m, "seldom", end+3600).ReadRate; often > 0.3 || seldom > 1.0/240 {
		t.Errorf("an hour later: %v and %v reads a second", often, seldom)
	}
}

// TestBudget: changes of the directory stay a small part of what clients ask.
func TestBudget(t *testing.T) {
	const seconds, writes, reads = 1000, 20, 10 // for each second
	var b Budget
	taken := 0
	for i := range seconds * 10 {
		b.Wrote(writes / 10)
		b.Read(reads / 10)
		d := Decision{Place: []string{"k"}}
		b.Afford(options(), &d, float64(i)/10)
		taken += d.Writes()
	}
	want := budgetMost + seconds*(budgetPerSecond+budgetPerWrite*writes+budgetPerRead*reads)
	if float64(taken) > want || float64(taken) < 0.95*want {
		t.Errorf("%d changes, not %.0f", taken, want)
	}
}

// TestUrgentRemovals: without a budget, keys are placed only if they are pinned, and removed only if they must not stay.
func TestUrgentRemovals(t *testing.T) {
	o := options()
	o.Capacity, o.Pinned = 2*o.Size(100), []string{"pinned/"}
	placed := Placed{"a": 0, "b": 0}
	of := func(key string, bytes int, rate float64) Usage { return Usage{Key: key, Bytes: bytes, ReadRate: rate} }
	leased := of("b", 100, 5)
	leased.Unfit = true
	for name, c := range map[string]struct {
		usages        []Usage
		capacity      int
		place, remove []string
	}{
		"better":   {usages: []Usage{of("a", 100, 5), of("b", 100, 1), of("c", 100, 9)}, capacity: o.Capacity},
		"grown":    {usages: []Usage{of("a", 100, 5), of("b", 200, 1)}, capacity: o.Capacity, remove: []string{"b"}},
		"unfit":    {usages: []Usage{of("a", 100, 5), leased}, capacity: o.Capacity, remove: []string{"b"}},
		"shut":     {remove: []string{"a", "b"}},
		"a pinned": {usages: []Usage{of("a", 100, 5), of("pinned/k", 100, 1)}, capacity: o.Capacity, place: []string{"pinned/k"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, b := *o, Budget{spent: budgetMost}
			o.Capacity = c.capacity
			d := Choose(&o, placed, c.usages, 10)
			b.Afford(&o, &d, 0)
			if !slices.Equal(d.Place, c.place) || !slices.Equal(d.Remove, c.remove) {
				t.Errorf("%v is placed and %v removed, not %v and %v", d.Place, d.Remove, c.place, c.remove)
			}
		})
	}
}

// TestHotKeysAreKept: the table holds a tenth of the keys, and knows those that are read most.
func TestHotKeysAreKept(t *testing.T) {
	const seed, keys, hot = 1, 1000, 20
	m, rng := NewMonitor(keys/10, 1e6), rand.New(rand.NewPCG(seed, 0))
	zipf := rand.NewZipf(rng, 1.2, 1, keys-1)
	truth := make(map[string]float64)
	for i := range 100_000 {
		key := fmt.Sprintf("k%03d", zipf.Uint64())
		truth[key]++
		m.Read(key, 10, float64(i)/1000)
	}
	if n := len(m.Usages(100)); n != keys/10 {
		t.Errorf("%d keys are known, more or less than the table holds", n)
	}
	for i := range hot {
		key := fmt.Sprintf("k%03d", i)
		if got := find(m, key, 100).Reads; got < 0.95*truth[key] || got > truth[key] {
			t.Errorf("seed %d: %s: %.0f reads are known of %.0f", seed, key, got, truth[key])
		}
	}
}

func TestChoiceStaysWithinCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := options()
		o.Capacity = rapid.IntRange(1, 5000).Draw(t, "capacity")
		o.Pinned = []string{"pin"}
		o.Excluded = []string{"never"}
		placed, sizes := make(Placed), make(map[string]int)
		var usages []Usage
		for i := range rapid.IntRange(0, 30).Draw(t, "keys") {
			u := Usage{
				Key:      fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"k", "pin", "never"}).Draw(t, "prefix"), i),
				ReadRate: rapid.Float64Range(0, 100).Draw(t, "reads"), WriteRate: rapid.Float64Range(0, 100).Draw(t, "writes"),
				Bytes: rapid.IntRange(0, 6000).Draw(t, "bytes"), Unfit: rapid.IntRange(0, 9).Draw(t, "unfit") == 0,
			}
			usages = append(usages, u)
			sizes[u.Key] = o.Size(u.Bytes)
			if rapid.Bool().Draw(t, "placed") {
				placed[u.Key] = rapid.Float64Range(0, 100).Draw(t, "since")
			}
		}
		d := Choose(o, placed, usages, 100)
		for _, key := range d.Remove {
			delete(placed, key)
		}
		for _, key := range d.Place {
			if _, twice := placed[key]; twice {
				t.Fatalf("%s is placed twice", key)
			}
			placed[key] = 100
		}
		bytes := 0
		for key := range placed {
			if bytes += sizes[key]; strings.HasPrefix(key, "never") {
				t.Fatalf("%s is excluded", key)
			}
		}
		if bytes > o.Capacity {
			t.Fatalf("%d bytes of %d", bytes, o.Capacity)
		}
	})
}

func TestChoice(t *testing.T) {
	o := options()
	o.Capacity = 2 * o.Size(100)
	usages := []Usage{
		{Key: "hot", ReadRate: 50, Bytes: 100}, {Key: "warm", ReadRate: 10, Bytes: 100}, {Key: "written", ReadRate: 10, WriteRate: 100, Bytes: 100},
		{Key: "leased", ReadRate: 90, Bytes: 100, Unfit: true}, {Key: "big", ReadRate: 90, Bytes: 5000},
	}
	if d := Choose(o, nil, usages, 0); !slices.Equal(d.Place, []string{"hot", "warm"}) || len(d.Remove) != 0 {
		t.Errorf("%+v", d)
	}
	placed := Placed{"hot": 0, "cool": 0, "leased": 0}
	cool := Usage{Key: "cool", ReadRate: 9, Bytes: 100}
	if d := Choose(o, placed, append(usages, cool), 100); len(d.Place) != 0 || !slices.Equal(d.Remove, []string{"leased"}) {
		t.Errorf("a key that is hardly better takes no place: %+v", d)
	}
	cool.ReadRate = 5
	if d := Choose(o, placed, append(usages, cool), 100); !slices.Equal(d.Place, []string{"warm"}) ||
		!slices.Equal(d.Remove, []string{"cool", "leased"}) {
		t.Errorf("a key that is much better does: %+v", d)
	}
	placed["cool"] = 99.5
	if d := Choose(o, placed, append(usages, cool), 100); len(d.Place) != 0 {
		t.Errorf("but not that of a key that has just come: %+v", d)
	}
	for key, want := range map[string]string{
		"leased": "lease", "big": "a value may have", "written": "would be worth", "unknown": "not among", "hot": "placed for",
	} {
		if got := Explain(o, placed, usages, key, 100).String(); !strings.Contains(got, want) {
			t.Errorf("%s: %q does not say %q", key, got, want)
		}
	}
}

// TestWritesTakeNoCounters writes many keys that nothing reads: the keys that are read keep their counters.
func TestWritesTakeNoCounters(t *testing.T) {
	m := NewMonitor(10, 7)
	for i := range 10 {
		m.Read(fmt.Sprint("read ", i), 100, 0)
	}
	for i := range 1000 {
		m.Write(fmt.Sprint("written ", i), 100, false, 1)
	}
	for _, u := range m.Usages(1) {
		if u.Reads == 0 || u.Writes != 0 {
			t.Errorf("%+v", u)
		}
	}
}
