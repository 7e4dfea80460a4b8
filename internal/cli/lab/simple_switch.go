package lab

import (
	"fmt"
	"strconv"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

const simpleSwitchName = "simple_switch_grpc"

// simpleSwitch is the command of BMv2's switch, without a program.
func simpleSwitch(l *lab.Lab, h lab.Host) []string {
	argv := []string{simpleSwitchName, "--no-p4", "--device-id", strconv.Itoa(cli.SwitchDevice), "--log-level", "off"}
	for i, port := range l.Ports(h.Name) {
		argv = append(argv, "-i", fmt.Sprintf("%d@%s", i, port))
	}
	return append(argv, "--", "--cpu-port", strconv.Itoa(p4.PortCPU), "--grpc-server-addr", switchAddress)
}
