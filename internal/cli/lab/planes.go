package lab

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4/p4runtime"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// planeSwitch is the P4 plane on a switch in a process of its own, which the node drives by P4Runtime.
const planeSwitch = "p4runtime"

// planePackets is planeSwitch on a switch without registers.
const planePackets = "p4packets"

// planeV1Model is planeSwitch on BMv2's simple_switch_grpc, which is looked for in PATH.
const planeV1Model = "v1model"

// planes are the planes of a lab's nodes: one for all, or one per node in order.
type planes []string

func planesOf(list string, nodes int) (planes, error) {
	all := planes(strings.Split(list, ","))
	for _, plane := range all {
		switch plane {
		case planeV1Model:
			if _, err := exec.LookPath(p4runtime.SimpleSwitch); err != nil {
				return nil, fmt.Errorf("--plane %q: %w: build BMv2 with P4Runtime, put it there (docs/p4.md)", list, err)
			}
		case cli.PlaneXDP, cli.PlaneSoft, cli.PlaneP4, planeSwitch, planePackets:
		default:
			return nil,
				cli.UsageError(fmt.Errorf("--plane %q: want xdp, soft, p4, p4runtime, p4packets or v1model, "+
					"or one of them for each node, with commas between", list))
		}
	}
	if len(all) != 1 && len(all) != nodes {
		return nil, cli.UsageError(fmt.Errorf("--plane %q: that is %d planes for %d nodes", list, len(all), nodes))
	}
	return all, nil
}

// isSwitch says whether a plane is a switch in a process of its own.
func isSwitch(plane string) bool {
	return plane == planeSwitch || plane == planePackets || plane == planeV1Model
}

// of returns the plane of a host.
func (p planes) of(l *lab.Lab, h lab.Host) string {
	if len(p) == 1 {
		return p[0]
	}
	return p[slices.IndexFunc(l.Plan.With(lab.RoleNode), func(o lab.Host) bool { return o.Name == h.Name })]
}

// hasSwitch reports whether a node is a switch.
func (p planes) hasSwitch() bool {
	return slices.ContainsFunc(p, func(plane string) bool { return plane == cli.PlaneP4 || isSwitch(plane) })
}

// arguments returns the arguments for the data plane of a node.
func (p planes) arguments(l *lab.Lab, h lab.Host) []string {
	plane := p.of(l, h)
	argv := []string{"--plane", plane}
	if isSwitch(plane) {
		argv = []string{"--plane", cli.PlaneP4, "--switch", switchAddress}
	}
	switch plane {
	case cli.PlaneXDP:
		argv = append(argv, "--pin", l.PinDir(h.Name), "--transit", l.Plan.Subnet.String())
	case cli.PlaneSoft:
		return argv
	}
	return append(argv, portsOf(l, h)...)
}

// switchAddress is that of a lab's switches, each on its own host.
const switchAddress = "127.0.0.1:9559"

// beside returns the command of a node's switch; nil: it has none.
func (p planes) beside(product string) func(*lab.Lab, lab.Host) []string {
	return func(l *lab.Lab, h lab.Host) []string {
		plane := p.of(l, h)
		if !isSwitch(plane) {
			return nil
		}
		if plane == planeV1Model {
			return p4runtime.SimpleSwitchCommand(cli.SwitchDevice, switchAddress, l.Ports(h.Name)...)
		}
		argv := []string{product, "switch", "--listen", switchAddress}
		if plane == planePackets {
			argv = append(argv, "--no-registers")
		}
		return append(argv, portsOf(l, h)...)
	}
}

func portsOf(l *lab.Lab, h lab.Host) []string {
	var argv []string
	for _, port := range l.Ports(h.Name) {
		argv = append(argv, "--port-if", port)
	}
	return argv
}

// sizes returns the size arguments that all nodes of a static chain need if one of them runs a
// switch: all nodes of a chain need the same cell length.
func (p planes) sizes() []string {
	if !p.hasSwitch() {
		return nil
	}
	return []string{
		"--cell-bytes", strconv.Itoa(p4.CellBytes), "--objects", strconv.Itoa(p4.MaxObjects), "--sessions",
		strconv.Itoa(p4.MaxSessions),
	}
}
