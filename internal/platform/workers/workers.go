// Package workers does short work on goroutines that stay. A new goroutine has a small stack, and to grow it takes
// longer than much of such work.
package workers

import "sync/atomic"

// Pool does work of one kind.
type Pool[T any] struct {
	do      func(T)
	most    int32
	ended   <-chan struct{}
	idle    chan T       // to workers that rest
	resting atomic.Int32 // workers that rest, or are about to
}

// New makes a pool in which up to most goroutines wait for work, until ended is closed.
func New[T any](most int, ended <-chan struct{}, do func(T)) *Pool[T] {
	return &Pool[T]{do: do, most: int32(most), ended: ended, idle: make(chan T)}
}

// Go begins to do something, on a goroutine that rests or on a new one.
func (p *Pool[T]) Go(work T) {
	select {
	case p.idle <- work:
	default:
		go p.run(work)
	}
}

// run does one thing after the other. It ends when enough others rest.
func (p *Pool[T]) run(work T) {
	for {
		p.do(work)
		if p.resting.Add(1) > p.most {
			p.resting.Add(-1)
			return
		}
		select {
		case work = <-p.idle:
		case <-p.ended:
			p.resting.Add(-1)
			return
		}
		p.resting.Add(-1)
	}
}
