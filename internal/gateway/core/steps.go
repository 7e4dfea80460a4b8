package core

// steps are requests of which each follows from the result of the one before.
type steps struct {
	step func(*Result)
	next Request
}

// Next returns the request to execute next, on etcd's newest state; more is false if there is none.
func (s *steps) Next() (r Request, more bool) { return s.next, s.step != nil }

// Took takes the result of a request. An unknown one ends the steps.
func (s *steps) Took(r *Result) {
	step := s.step
	s.step = nil
	if !r.Unknown {
		step(r)
	}
}

func (s *steps) ask(r Request, then func(*Result)) { s.next, s.step = r, then }
