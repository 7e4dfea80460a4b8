package scale

// load is the time that every switch spends on one operation, on average over all operations, in
// seconds; and packets, counted likewise.
type load struct {
	fabric  *Fabric
	rates   *Rates
	busy    []float64 // of each switch, without leaf and spine
	leaf    float64   // added to every leaf
	spine   float64   // added to every spine
	packets float64
}

func newLoad(f *Fabric, r *Rates) *load {
	return &load{fabric: f, rates: r, busy: make([]float64, f.Leaves+f.Spines)}
}

// at adds packets to one switch, which handles them at a rate.
func (l *load) at(node int, packets, rate float64) {
	l.busy[node] += packets / rate
	l.packets += packets
}

// between adds the forwarding work between two switches: by a spine between leaves, by a leaf
// between spines, each with equal probability.
func (l *load) between(from, to int, packets float64) {
	if from == to {
		return
	}
	leaves, spines := float64(l.fabric.Leaves), float64(l.fabric.Spines)
	switch a, b := from < l.fabric.Leaves, to < l.fabric.Leaves; {
	case a && b:
		l.spine += packets / spines / l.rates.Transit
	case !a && !b:
		l.leaf += packets / leaves / l.rates.Transit
	default:
		return
	}
	l.packets += packets
}

// client adds the forwarding work between a uniformly chosen client and a switch, in either
// direction: that of the client's leaf, unless it is the switch, and between leaves that of a
// spine.
func (l *load) client(node int, packets float64) {
	leaves, spines := float64(l.fabric.Leaves), float64(l.fabric.Spines)
	one := packets / leaves / l.rates.Transit
	l.leaf += one
	l.packets += packets
	if node < l.fabric.Leaves {
		l.busy[node] -= one
		others := packets * (leaves - 1) / leaves
		l.spine += others / spines / l.rates.Transit
		l.packets += others - packets/leaves
	}
}

// of is a switch's time per operation.
func (l *load) of(node int) float64 {
	if node < l.fabric.Leaves {
		return l.busy[node] + l.leaf
	}
	return l.busy[node] + l.spine
}

// greatest finds the busiest switch, and the mean of all.
func (l *load) greatest() (node int, most, mean float64) {
	for i := range l.busy {
		if l.of(i) > most {
			node, most = i, l.of(i)
		}
		mean += l.of(i) / float64(len(l.busy))
	}
	return node, most, mean
}
