package scale

import (
	"math"
	"testing"
)

// Lines made of known times give these back.
func TestLinesAreTakenApart(t *testing.T) {
	const transit, read, forward, write, commit, ack = 0.2e-6, 0.25e-6, 0.3e-6, 0.5e-6, 0.9e-6, 0.2e-6
	near, far := 1/read, 1/(read+4*transit)
	rate, err := TransitRate(near, far)
	if err != nil || math.Abs(rate*transit-1) > 1e-9 {
		t.Errorf("%g, %v", rate, err)
	}
	theirs, err := Lines{
		Read:       near,
		WriteTwo:   1 / (write + commit + transit),
		WriteThree: 1 / (2*write + commit + 2*transit),
		Transit:    rate,
	}.Rates(NetChain)
	if err != nil || math.Abs(theirs.Write*write-1) > 1e-9 || math.Abs(theirs.Commit*commit-1) > 1e-9 ||
		theirs.Read != near {
		t.Errorf("%+v, %v", theirs, err)
	}
	ours, err := Lines{
		Read: near, DirtyHead: 1 / (forward + read + 3*transit), Transit: rate,
		WriteTwo:   1 / (write + commit + ack + transit),
		WriteThree: 1 / (2*write + commit + 2*ack + 3*transit), // two pass the answer on, one the head's ACK
	}.Rates(Ours)
	if err != nil || math.Abs(ours.Write*write-1) > 1e-9 || math.Abs(ours.Commit*commit-1) > 1e-9 ||
		math.Abs(ours.Forward*forward-1) > 1e-9 ||
		ours.Ack != rate {
		t.Errorf("%+v, %v", ours, err)
	}
}

// A rate that noise makes impossible becomes the rate of forwarding a packet, and no higher.
func TestNoiseMakesNothingFree(t *testing.T) {
	rates, err := Lines{Read: 4e6, DirtyHead: 5e6, WriteTwo: 1e6, WriteThree: 1.1e6, Transit: 5e6}.Rates(Ours)
	if err != nil || rates.Write != 5e6 || rates.Forward != 5e6 || !(rates.Commit > 0) {
		t.Errorf("%+v, %v", rates, err)
	}
	if _, err := TransitRate(1e6, 1e6); err == nil {
		t.Error("passing on takes no time")
	}
	if _, err := (Lines{Read: 1}).Rates(Ours); err == nil {
		t.Error("no rates are enough")
	}
}
