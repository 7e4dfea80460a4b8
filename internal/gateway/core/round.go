package core

import "slices"

// Round is a read of several keys in the chain, which several readers may share: the revision first, then the objects, then
// [Gateway.Judge] for each key. The caller reads what [Round.Next] names. The zero value is a round without keys.
type Round struct {
	Without   Rule // rules switched off; zero outside tests
	keys      []string
	instances []int64        // of each key, when the last of its readers began
	indices   map[string]int // of many keys
	revision  Answer         // if revised
	objects   []Answer       // empty: none was read
	far       []int          // objects that are read through the network, ascending
	revised   bool           // the revision was read
	found     bool           // the objects were read through the network
}

// fewKeys are found without a map.
const fewKeys = 8

// Join adds a read of a key that began with an instance, before the round reads anything. It returns the key's index.
func (r *Round) Join(key string, instance int64) int {
	i, known := r.index(key)
	if known {
		r.instances[i] = max(r.instances[i], instance)
		return i
	}
	i, r.keys, r.instances = len(r.keys), append(r.keys, key), append(r.instances, instance)
	if r.indices != nil {
		r.indices[key] = i
	} else if len(r.keys) > fewKeys {
		r.indices = make(map[string]int)
		for i, key := range r.keys {
			r.indices[key] = i
		}
	}
	return i
}

func (r *Round) index(key string) (i int, known bool) {
	if r.indices != nil {
		i, known = r.indices[key]
		return i, known
	}
	i = slices.Index(r.keys, key)
	return i, i >= 0
}

// Keys returns the keys of the round, by index.
func (r *Round) Keys() []string { return r.keys }

// Nearby takes what the memory of a node on this machine has: the revision, and then the objects, by index. The round keeps the
// objects. Those that are not OK, it reads through the network.
func (r *Round) Nearby(revision Answer, objects []Answer) {
	if revision.Status == OK {
		r.revised, r.revision, r.objects = true, revision, objects
	}
}

// Next returns what is to be read through the network: [ReadRevision], or [ReadObject] for [Round.Missing]. more is false if the
// round is over. Whoever writes at a revision that the chain has, has set its bit before, or has stored what it wrote. So the
// revision is read before the objects.
func (r *Round) Next() (kind OpKind, more bool) {
	switch {
	case r.Without&ReadOrder != 0 && !r.found && r.incomplete():
		return ReadObject, true
	case !r.revised:
		return ReadRevision, true
	}
	return ReadObject, !r.found && r.revision.Status == OK && r.incomplete()
}

func (r *Round) incomplete() bool {
	for i := range r.objects {
		if r.objects[i].Status != OK {
			return true
		}
	}
	return len(r.objects) == 0
}

// Missing returns the keys of the objects that are to be read.
func (r *Round) Missing() (keys []string) {
	if len(r.objects) == 0 {
		return r.keys
	}
	r.far = r.far[:0]
	for i, key := range r.keys {
		if r.objects[i].Status != OK {
			r.far, keys = append(r.far, i), append(keys, key)
		}
	}
	return keys
}

// Revision takes the answer for the revision.
func (r *Round) Revision(a Answer) { r.revised, r.revision = true, a }

// Objects takes the answers for the objects that [Round.Missing] named, in their order. The round keeps them.
func (r *Round) Objects(answers []Answer) {
	r.found = true
	if len(r.objects) == 0 {
		r.objects = answers
		return
	}
	for i, at := range r.far {
		r.objects[at] = answers[i]
	}
}

// Object returns the answer for an object, by its key's index; nil: it was not read, since the revision was not.
func (r *Round) Object(i int) *Answer {
	if r.revision.Status != OK || len(r.objects) == 0 {
		return nil
	}
	return &r.objects[i]
}

// Near reports whether an object came from a node on this machine.
func (r *Round) Near(i int) bool {
	_, far := slices.BinarySearch(r.far, i)
	return len(r.objects) > 0 && !far && !(r.found && len(r.far) == 0)
}

// Judge decides whether the reads of a key, by its index, are answered from its object, and with which header. The directory has
// to name the instance still: the key may have been closed meanwhile, and the gateway may have acknowledged that. Then
// others write without INTENT. Bits that keep an object from being read may need a clean-up.
func (g *Gateway) Judge(r *Round, i int) (header int64, hit bool) {
	object := r.Object(i)
	if object == nil {
		return 0, false
	}
	key, instance := r.keys[i], r.instances[i]
	header, hit = g.hit(instance, r.revision.Rev, object)
	if hit && g.readable(key) == instance {
		return header, true
	}
	if l := g.life; l != nil && object.Status == OK && object.Object.Bits != 0 {
		l.suspects[key] = true
	}
	return 0, false
}

// hit decides what the revision and the object show together. The revision was read first: whoever wrote at a later one
// has its bit in the object, or has resolved it with that write. That is so for the instance that the directory names:
// an object of another may be a remainder, which no INTENT finds.
func (g *Gateway) hit(instance, revision int64, a *Answer) (header int64, hit bool) {
	o := &a.Object
	if a.Status != OK || o.Instance != instance || !o.Readable() {
		return 0, false
	}
	if o.State == Absent && !g.on(AbsentRevision) {
		return revision, true
	}
	return max(revision, o.Rev, o.Floor), true
}
