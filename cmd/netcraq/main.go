// Command netcraq is the product: nodes, controllers, and the commands of users and operators. It finds netcraq-lab and
// netcraq-bench, which have the commands that production does not need, by their names.
package main

import (
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/product"
)

func main() { cli.ProductMain(product.Commands()...) }
