package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/internal/gateway/pages"
)

// GatewayListen is the address at which gateways listen by default.
const GatewayListen = "127.0.0.1:23790"

// gatewayWithin is how long gateways may take to answer by default.
const gatewayWithin = 5 * time.Second

// AddGateways adds the flag that names the gateways whose pages a command reads.
func AddGateways(f *pflag.FlagSet, c *pages.Client) {
	c.Timeout = gatewayWithin
	f.StringSliceVar(&c.Gateways, "gateways", []string{GatewayListen},
		"gateways: host:port, or http:// or https:// and an address of their --metrics-addr")
}
