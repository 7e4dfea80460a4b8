package lab

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Widths of a drawing, in characters.
const (
	boxWidth = 20
	gapWidth = 3
)

// Draw draws the topology: nodes as boxes in chain order, spines above them, clients below their
// nodes.
func (s *Status) Draw() string {
	var boxes, spines [][]string
	for _, h := range s.Hosts {
		switch h.Role {
		case RoleNode:
			boxes = append(boxes, s.nodeBox(h))
		case RoleSpine:
			spines = append(spines, box([]string{h.Name + "  spine", h.Addr.String()}))
		}
	}
	var rows []string
	if s.Topology != Line {
		rows = append(rows, fabric(spines, boxes)...)
		rows = append(rows, beside(boxes, nil)...)
	} else {
		rows = append(rows, beside(boxes, s.joints())...)
	}
	rows = append(rows, s.attached()...)
	rows = append(rows, s.listed()...)
	for i, row := range rows {
		rows[i] = strings.TrimRight("  "+row, " ")
	}
	return strings.Join(rows, "\n") + "\n"
}

func (s *Status) nodeBox(h HostStatus) []string {
	lines := []string{h.Name + "  " + h.ChainRole, h.Addr.String()}
	if n := h.Node; n != nil && n.Health != HealthNone {
		what := strings.TrimSpace(n.Plane + " " + n.Mode)
		if n.Health != HealthOK {
			what = n.Health
		}
		lines = append(lines, what)
	}
	b := box(lines)
	if len(s.hanging(h.Name)) > 0 {
		b[len(b)-1] = replace(b[len(b)-1], 2, '┬')
	}
	return b
}

// joints returns the links of a line between neighbouring nodes.
func (s *Status) joints() []string {
	var joints []string
	for _, d := range s.Directions {
		if !s.is(d.From, RoleNode) || !s.is(d.To, RoleNode) || d.From > d.To {
			continue
		}
		switch {
		case d.Down:
			joints = append(joints, "├╴╳╶┤")
		case d.Loss+d.Duplicate+d.Corrupt > 0:
			joints = append(joints, "├─≈─┤")
		default:
			joints = append(joints, "├───┤")
		}
	}
	return joints
}

func (s *Status) is(host string, role Role) bool {
	return slices.ContainsFunc(s.Hosts, func(h HostStatus) bool { return h.Name == host && h.Role == role })
}

// hanging returns the clients (and the machine) attached to a node.
func (s *Status) hanging(node string) []HostStatus {
	var hosts []HostStatus
	for _, h := range s.Hosts {
		if (h.Role == RoleClient || h.Role == RoleRoot) && slices.Contains(h.Peers, node) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// listed returns one line per controller and per host attached to the spines.
func (s *Status) listed() []string {
	var rows []string
	for _, h := range s.Hosts {
		switch {
		case h.Role == RoleController:
			rows = append(rows, "  ╘═ "+h.Name+"  "+h.Addr.String()+"  controller "+h.Node.Health+" ")
		case s.Topology == Fabric && (h.Role == RoleClient || h.Role == RoleRoot):
			rows = append(rows, "  ╘═ "+h.Name+"  "+h.Addr.String())
		}
	}
	return rows
}

// attached draws the hosts attached to the nodes, one column per node.
func (s *Status) attached() []string {
	var rows []string
	column := 0
	for _, h := range s.Hosts {
		if h.Role != RoleNode {
			continue
		}
		hosts := s.hanging(h.Name)
		for i, hanging := range hosts {
			mark := "├─ "
			if i == len(hosts)-1 {
				mark = "└─ "
			}
			for len(rows) <= i {
				rows = append(rows, "")
			}
			text := "  " + mark + hanging.Name + "  " + hanging.Addr.String()
			rows[i] = pad(rows[i], column*(boxWidth+gapWidth)) + pad(text, boxWidth+gapWidth)
		}
		column++
	}
	return rows
}

// box frames lines.
func box(lines []string) []string {
	framed := []string{"┌" + strings.Repeat("─", boxWidth-2) + "┐"}
	for _, line := range lines {
		framed = append(framed, "│"+pad(" "+line, boxWidth-2)+"│")
	}
	return append(framed, "└"+strings.Repeat("─", boxWidth-2)+"┘")
}

// beside joins boxes of equal height side by side. Joints, if any, connect them at their first line
// of text.
func beside(boxes [][]string, joints []string) []string {
	if len(boxes) == 0 {
		return nil
	}
	rows := slices.Clone(boxes[0])
	for i, b := range boxes[1:] {
		for r := range rows {
			rows[r] += strings.Repeat(" ", gapWidth) + b[r]
		}
		if i < len(joints) {
			at := (i+1)*(boxWidth+gapWidth) - gapWidth - 1
			for k, c := range []rune(joints[i]) {
				rows[1] = replace(rows[1], at+k, c)
			}
		}
	}
	return rows
}

// fabric draws the spines, the leaves and the links between them.
func fabric(spines, leaves [][]string) []string {
	width := max(len(leaves), len(spines))*(boxWidth+gapWidth) - gapWidth
	indent := (width - (len(spines)*(boxWidth+gapWidth) - gapWidth)) / 2
	if len(leaves) < len(spines) {
		indent = 0
	}
	bus := []rune(strings.Repeat("═", width))
	const middle = boxWidth / 2
	for i, b := range spines {
		b[len(b)-1] = replace(b[len(b)-1], middle, '┬')
		bus[indent+i*(boxWidth+gapWidth)+middle] = '╧'
	}
	for i, b := range leaves {
		b[0] = replace(b[0], middle, '┴')
		at := i*(boxWidth+gapWidth) + middle
		if bus[at] == '╧' {
			bus[at] = '╪'
		} else {
			bus[at] = '╤'
		}
	}
	var rows []string
	for _, row := range beside(spines, nil) {
		rows = append(rows, strings.Repeat(" ", indent)+row)
	}
	return append(rows, string(bus)+"  every leaf to every spine")
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

func replace(text string, at int, with rune) string {
	runes := []rune(text)
	runes[at] = with
	return string(runes)
}
