package p4runtime

import (
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

const (
	// mostSteps are under way at a time, so that their answers have room in a server's queue.
	mostSteps = 128
	// stepAgain is after what time a step is repeated whose frame or answer was lost.
	stepAgain = 200 * time.Millisecond
)

var _ p4.Stepper = (*Remote)(nil)

// Steps implements [p4.Stepper]: the switch's server answered UNIMPLEMENTED when registers were asked for.
func (r *Remote) Steps() bool { return r.steps }

// Ask implements [p4.Stepper].
func (r *Remote) Ask(frames [][]byte) ([][]byte, error) {
	r.asking.Lock()
	defer r.asking.Unlock()
	answers := make([][]byte, 0, len(frames))
	for some := range slices.Chunk(frames, mostSteps) {
		are, err := r.askSome(some)
		if err != nil {
			return nil, err
		}
		answers = append(answers, are...)
	}
	return answers, nil
}

func (r *Remote) askSome(frames [][]byte) ([][]byte, error) {
	answers := make([][]byte, len(frames))
	missing := make(map[uint64]int, len(frames))
	for i, f := range frames {
		missing[p4.StepNumber(f)] = i
	}
	again, late := time.NewTicker(stepAgain), time.NewTimer(r.patience)
	defer again.Stop()
	defer late.Stop()
	if err := r.sendSteps(frames, answers); err != nil {
		return nil, err
	}
	for len(missing) > 0 {
		select {
		case f := <-r.answers:
			number, _ := p4.AnswerTo(f)
			if i, ok := missing[number]; ok {
				answers[i] = f
				delete(missing, number)
			}
		case <-again.C:
			if err := r.sendSteps(frames, answers); err != nil {
				return nil, err
			}
		case <-r.gone:
			return nil, r.Err()
		case <-late.C:
			return nil, r.lost(fmt.Errorf("its program answers no packets of the CPU port within %v", r.patience))
		}
	}
	return answers, nil
}

// sendSteps sends the frames that have no answer yet.
func (r *Remote) sendSteps(frames, answers [][]byte) error {
	for i, f := range frames {
		if answers[i] != nil {
			continue
		}
		if err := r.Put(p4.PortCPU, f); err != nil {
			return err
		}
	}
	return nil
}
