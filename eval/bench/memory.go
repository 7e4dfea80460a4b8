package bench

import (
	"context"
	"fmt"

	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// MemoryOptions configure a measurement of a full node.
type MemoryOptions struct {
	NodeOptions
	Windows
	Progress Progress
}

// MemoryResult is the memory and the read rate of a full node.
type MemoryResult struct {
	Subject
	Objects        int     `json:"objects"`
	ValueBytes     int     `json:"value_bytes"`
	MemoryBytes    uint64  `json:"memory_bytes"` // of the node's tables, by the kernel's accounting
	BytesPerObject float64 `json:"bytes_per_object"`
	EmptyBytes     uint64  `json:"empty_bytes"` // tables of a node with room for one object
	FillS          float64 `json:"fill_s"`      // time to write every object once over the wire
	ReadsPerS      float64 `json:"reads_per_s"` // over all objects
	EchoPerS       float64 `json:"echo_per_s"`
	Ratio          float64 `json:"ratio"`
	Lost           uint64  `json:"lost"`
	Wrong          uint64  `json:"wrong"`
	Host           Host    `json:"machine"`
}

// Memory fills a node with objects, measures its memory, and reads all objects.
func Memory(ctx context.Context, o MemoryOptions) (*MemoryResult, error) {
	if err := validate(&o.NodeOptions, &o.Windows); err != nil {
		return nil, err
	}
	o.Objects = o.Keys
	empty, err := emptyBytes(o.NodeOptions)
	if err != nil {
		return nil, err
	}
	var usage dataplane.Usage
	var memory uint64
	read, err := readAndLook(ctx, ReadOptions{
		NodeOptions: o.NodeOptions, Windows: o.Windows, Progress: o.Progress,
	}, func(p dataplane.Plane) (err error) {
		if usage, err = p.Usage(); err == nil {
			memory, err = p.Memory()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if usage.Objects != o.Keys {
		return nil, fmt.Errorf("the node holds %d objects, not the %d that were written", usage.Objects, o.Keys)
	}
	return &MemoryResult{
		Objects: usage.Objects, ValueBytes: o.ValueBytes,
		MemoryBytes: memory, EmptyBytes: empty,
		BytesPerObject: float64(memory-empty) / float64(usage.Objects),
		FillS:          read.FillS, ReadsPerS: read.ReadsPerS, EchoPerS: read.EchoPerS, Ratio: read.Ratio,
		Lost: read.Lost, Wrong: read.Wrong, Subject: read.Subject, Host: read.Host,
	}, nil
}

// emptyBytes returns the memory of a node with room for one object.
func emptyBytes(o NodeOptions) (uint64, error) {
	o.Keys, o.Objects = 1, 1
	s, err := newReadStage(&o)
	if err != nil {
		return 0, err
	}
	defer s.undo.run()
	return s.plane.plane.Memory()
}

// Table returns one row.
func (r *MemoryResult) Table() ([]string, [][]string) {
	return []string{"objects", "value bytes", "tables, MB", "bytes/object", "fill, s", "reads/s", "swap/s",
			"ratio"}, [][]string{{
			fmt.Sprint(r.Objects), fmt.Sprint(r.ValueBytes), fmt.Sprintf("%.1f", float64(r.MemoryBytes)/1e6),
			fmt.Sprintf("%.1f", r.BytesPerObject), fmt.Sprintf("%.1f", r.FillS), count(r.ReadsPerS), count(r.EchoPerS),
			fmt.Sprintf("%.2f", r.Ratio),
		}}
}

// Summary states the plane, the session count and the memory of an empty node.
func (r *MemoryResult) Summary() string {
	return fmt.Sprintf("plane %s with %d sessions; a node for one object has tables of %.1f MB. "+
		"All objects read: %d wrong, %d lost.\n%v",
		r.describe(), sessions, float64(r.EmptyBytes)/1e6, r.Wrong, r.Lost, r.Host)
}
