package sim

// event is something that will happen. Events of one moment happen in the order in which they were planned.
type event struct {
	at, order uint64
	do        func()
}

// queue is a heap of events, the earliest first.
type queue struct {
	events []event
	order  uint64
}

func (a *event) before(b *event) bool { return a.at < b.at || a.at == b.at && a.order < b.order }

func (q *queue) push(at uint64, do func()) {
	q.order++
	q.events = append(q.events, event{at, q.order, do})
	e := q.events
	for i := len(e) - 1; i > 0; {
		parent := (i - 1) / 2
		if !e[i].before(&e[parent]) {
			break
		}
		e[i], e[parent] = e[parent], e[i]
		i = parent
	}
}

func (q *queue) pop() event {
	e := q.events
	first, last := e[0], len(e)-1
	e[0], e[last] = e[last], event{}
	q.events = e[:last]
	q.sink()
	return first
}

func (q *queue) sink() {
	e := q.events
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(e); child++ {
			if e[child].before(&e[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		e[i], e[least] = e[least], e[i]
		i = least
	}
}
