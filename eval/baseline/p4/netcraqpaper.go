package p4

import (
	"encoding/binary"

	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
	programs "github.com/netcraq/netcraq/eval/p4"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// Limits of eval/p4/netcraqpaper.p4, and the names that p4c gives its parts.
const (
	paperObjects  = 65536
	paperVersions = 8 // cells of an object in the registers

	tableMembers  = "members"
	actionMember  = "member"
	regStoreHigh  = "objects_store_high"
	regStoreLow   = "objects_store_low"
	regReadIndex  = "objects_read_index"
	regWriteIndex = "objects_write_index"
)

// NetCRAQPaperTarget is the program of NetCRAQ as published as a [baseline.Target]. An object has at most 8 versions.
type NetCRAQPaperTarget struct {
	*bench
	state netcraqpaper.State // as loaded
}

// NewNetCRAQPaperTarget makes a target.
func NewNetCRAQPaperTarget() (*NetCRAQPaperTarget, error) {
	b, err := newBench(programs.NetCRAQPaper)
	if err != nil {
		return nil, err
	}
	return &NetCRAQPaperTarget{bench: b}, nil
}

// Load implements [baseline.Target].
func (t *NetCRAQPaperTarget) Load(s netcraqpaper.State) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if err := paperFits(&s.Config); err != nil {
		return err
	}
	t.state = s.Clone()
	var r p4.Request
	for i := range s.Objects {
		writeObject(&r, i, &s.Objects[i])
	}
	r.Write(regOutcomes, 0, s.Counts[:]...)
	return t.replace(paperEntries(&s.Config), &r)
}

// paperFits says whether the program supports a configuration.
func paperFits(c *netcraqpaper.Config) error {
	switch {
	case c.Keys > paperObjects:
		return unsupported("%d objects: the registers have room for %d", c.Keys, paperObjects)
	case c.Versions > paperVersions:
		return unsupported("%d versions of an object: the registers have room for %d", c.Versions, paperVersions)
	}
	return nil
}

func paperEntries(c *netcraqpaper.Config) []p4.Entry {
	args := []p4.Arg{
		{Name: "next"}, {Name: "tail", Value: p4.Address(c.Tail)}, {Name: "is_tail"},
		{Name: "copies", Value: uint64(1 + len(c.Group))},
		{Name: "keys", Value: uint64(c.Keys)}, {Name: "versions", Value: uint64(c.Versions)},
	}
	if c.IsTail() {
		args[2].Value = 1
	} else {
		args[0].Value = p4.Address(c.Next)
	}
	entries := []p4.Entry{{
		Table: tableLocal, Match: []uint64{p4.Address(c.Self), netcraqpaper.Port}, Action: actionNode, Args: args,
	}}
	for i, member := range c.Group {
		entries = append(entries, p4.Entry{
			Table: tableMembers, Match: []uint64{uint64(1 + i)}, Action: actionMember,
			Args: []p4.Arg{{Name: "address", Value: p4.Address(member)}},
		})
	}
	return entries
}

func writeObject(r *p4.Request, i int, o *netcraqpaper.Object) {
	for version, v := range o.Cells {
		r.Write(regStoreHigh, i*paperVersions+version, binary.BigEndian.Uint64(v[:8]))
		r.Write(regStoreLow, i*paperVersions+version, binary.BigEndian.Uint64(v[8:]))
	}
	r.Write(regReadIndex, i, uint64(o.ReadIndex))
	r.Write(regWriteIndex, i, uint64(o.WriteIndex))
}

// State implements [baseline.Target].
func (t *NetCRAQPaperTarget) State() (netcraqpaper.State, error) {
	s := t.state.Clone()
	n := len(s.Objects)
	high, low := make([]uint64, n*paperVersions), make([]uint64, n*paperVersions)
	readIndex, writeIndex := make([]uint64, n), make([]uint64, n)
	var r p4.Request
	r.Read(regStoreHigh, 0, high)
	r.Read(regStoreLow, 0, low)
	r.Read(regReadIndex, 0, readIndex)
	r.Read(regWriteIndex, 0, writeIndex)
	r.Read(regOutcomes, 0, s.Counts[:])
	if err := t.sw.Do(&r); err != nil {
		return s, err
	}
	for i := range s.Objects {
		o := &s.Objects[i]
		o.ReadIndex, o.WriteIndex = uint32(readIndex[i]), uint32(writeIndex[i])
		for version := range o.Cells {
			binary.BigEndian.PutUint64(o.Cells[version][:8], high[i*paperVersions+version])
			binary.BigEndian.PutUint64(o.Cells[version][8:], low[i*paperVersions+version])
		}
	}
	return s, nil
}
