package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// planes are the planes of a lab's nodes: one for all, or one per node in order.
type planes []string

func planesOf(list string, nodes int) (planes, error) {
	all := planes(strings.Split(list, ","))
	for _, plane := range all {
		switch plane {
		case cli.PlaneXDP, cli.PlaneSoft, cli.PlaneP4:
		default:
			return nil,
				cli.UsageError(fmt.Errorf("--plane %q: want xdp, soft or p4, or one of them for each node, with commas between",
					list))
		}
	}
	if len(all) != 1 && len(all) != nodes {
		return nil, cli.UsageError(fmt.Errorf("--plane %q: that is %d planes for %d nodes", list, len(all), nodes))
	}
	return all, nil
}

// of returns the plane of a host.
func (p planes) of(l *lab.Lab, h lab.Host) string {
	if len(p) == 1 {
		return p[0]
	}
	return p[slices.IndexFunc(l.Plan.With(lab.RoleNode), func(o lab.Host) bool { return o.Name == h.Name })]
}

func (p planes) has(plane string) bool { return slices.Contains(p, plane) }

// sizes returns the size arguments that all nodes of a static chain need if one of them runs a
// switch: all nodes of a chain need the same cell length.
func (p planes) sizes() []string {
	if !p.has(cli.PlaneP4) {
		return nil
	}
	return []string{
		"--cell-bytes", strconv.Itoa(p4.CellBytes), "--objects", strconv.Itoa(p4.MaxObjects), "--sessions",
		strconv.Itoa(p4.MaxSessions),
	}
}
