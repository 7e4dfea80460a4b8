package plot

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// Axis is one direction of a diagram.
type Axis struct {
	Label string // with the unit
	Log   bool
}

// scale is how far along the axis a value stands.
func (a Axis) scale() func(float64) float64 {
	if a.Log {
		return math.Log10
	}
	return func(v float64) float64 { return v }
}

// ticker places ticks where people expect them, and labels them with thousands as letters. On a
// logarithmic axis it is asked in logarithms.
type ticker struct {
	log bool
	at  []float64 // values to label; nil: round numbers
}

// Ticks implements the library's interface.
func (t ticker) Ticks(least, most float64) []plot.Tick {
	ticks := roundTicks(least, most)
	switch {
	case len(t.at) > 0:
		ticks = named(t.at)
	case t.log:
		ticks = logTicks(math.Pow(10, least), math.Pow(10, most))
	}
	if t.log {
		for i := range ticks {
			ticks[i].Value = math.Log10(ticks[i].Value)
		}
	}
	return ticks
}

func named(at []float64) []plot.Tick {
	var ticks []plot.Tick
	for _, v := range at {
		ticks = append(ticks, plot.Tick{Value: v, Label: Short(v)})
	}
	return ticks
}

// roundTicks are four to eight multiples of 1, 2, 2.5 or 5 times a power of ten.
func roundTicks(least, most float64) []plot.Tick {
	const wanted = 6
	span := most - least
	if span <= 0 || math.IsInf(span, 0) || math.IsNaN(span) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10(span/wanted)))
	for _, factor := range []float64{10, 5, 2.5, 2} {
		if span/(step*factor) >= wanted-1 {
			step *= factor
			break
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(least/step - 1e-9); i*step <= most+1e-9*span; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: Short(i * step)})
	}
	return ticks
}

// logTicks labels powers of ten, and 2 and 5 times those where there is room.
func logTicks(least, most float64) []plot.Tick {
	decades := math.Log10(most / least)
	stride := max(1, int(math.Ceil(decades/6)))
	var ticks []plot.Tick
	for e := int(math.Floor(math.Log10(least))); e <= int(math.Ceil(math.Log10(most))); e++ {
		for m := 1; m < 10; m++ {
			v := float64(m) * math.Pow(10, float64(e))
			if v < least*(1-1e-9) || v > most*(1+1e-9) {
				continue
			}
			tick := plot.Tick{Value: v}
			if m == 1 && e%stride == 0 || decades < 2.5 && (m == 2 || m == 5) {
				tick.Label = Short(v)
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

// Short writes a number with at most three digits that count, with thousands as letters: 1.25 M.
func Short(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if math.Abs(v) >= unit.size*0.9995 {
			return digits(v/unit.size) + unit.name
		}
	}
	return digits(v)
}

func digits(v float64) string {
	rounded, err := strconv.ParseFloat(fmt.Sprintf("%.3g", v), 64)
	if err != nil {
		return fmt.Sprint(v)
	}
	return strconv.FormatFloat(rounded+0, 'f', -1, 64) // + 0: no minus before zero
}

// roundUp is the next of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9 times a power of ten.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logBounds are the limits of a logarithmic axis around values: the next of 1, 2 or 5 times a power
// of ten on both sides.
func logBounds(least, most float64) (float64, float64) {
	down := func(v float64) float64 {
		power := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
		for _, m := range []float64{5, 2} {
			if m*power <= v {
				return m * power
			}
		}
		return power
	}
	least, most = down(least*0.9), 1/down(1/(most*1.1))
	if most/least < 9 {
		least /= 2
		most *= 2
	}
	return least, most
}
