// Command netcraq is the product: nodes, controllers, and the commands of users and operators. It finds netcraq-lab and
// netcraq-bench, which have the commands that production does not need, by their names.
package main

import (
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/controller"
	"github.com/netcraq/netcraq/internal/cli/gateway"
	"github.com/netcraq/netcraq/internal/cli/kv"
	"github.com/netcraq/netcraq/internal/cli/member"
	"github.com/netcraq/netcraq/internal/cli/node"
	"github.com/netcraq/netcraq/internal/cli/operate"
)

func main() {
	cli.ProductMain(kv.Commands(), node.Commands(), controller.Commands(), gateway.Commands(), member.Commands(),
		operate.Commands(), cli.Extensions())
}
