package p4runtime

import (
	"fmt"
	"strconv"

	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// SimpleSwitch is the name of BMv2's switch with a P4Runtime server.
const SimpleSwitch = "simple_switch_grpc"

// SimpleSwitchCommand returns the command line of [SimpleSwitch] without a program. The server listens at an address.
func SimpleSwitchCommand(device uint64, address string, interfaces ...string) []string {
	argv := []string{SimpleSwitch, "--no-p4", "--device-id", strconv.FormatUint(device, 10), "--log-level", "off"}
	for i, name := range interfaces {
		argv = append(argv, "-i", fmt.Sprintf("%d@%s", i, name))
	}
	return append(argv, "--", "--cpu-port", strconv.Itoa(p4.PortCPU), "--grpc-server-addr", address)
}
