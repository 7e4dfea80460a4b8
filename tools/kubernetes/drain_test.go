package kubernetes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// kept is a machine that is cordoned while another one is, so that its node cannot be drained: of four nodes, chains
// need three.
const kept = "machine-3"

// chain is what the test needs of `netcraq status --json`.
type chain struct {
	Shards struct{ Total, Whole, Copying, Moves int }
	Nodes  []struct {
		Name, Standing string
		Shards         int
	}
	Notes []string
}

// onMachine runs a command of the product in the pod of a machine's node.
func (c *cluster) onMachine(machine string, arguments ...string) (string, error) {
	name, err := c.try("--namespace=netcraq", "get", "pods", "--selector=app.kubernetes.io/component=node",
		"--field-selector=spec.nodeName="+machine, "--output=name")
	if err != nil {
		return "", err
	}
	return c.try(append([]string{"--namespace=netcraq", "exec", strings.TrimSpace(name), "--container=node", "--", "/netcraq"},
		arguments...)...)
}

func (c *cluster) chain() (is chain, err error) {
	text, err := c.onMachine("machine-1", "status", "--json", "--controllers=192.0.2.1,192.0.2.2,192.0.2.3")
	if err == nil {
		err = json.Unmarshal([]byte(text), &is)
	}
	return is, err
}

// whole waits until every machine's node has shards, and every chain is whole. Without them a node answers no read.
func (c *cluster) whole() {
	c.t.Helper()
	c.await("a whole chain", func() error {
		is, err := c.chain()
		if err != nil {
			return err
		}
		serving := 0
		for _, n := range is.Nodes {
			if n.Standing == "up" && n.Shards > 0 {
				serving++
			}
		}
		if serving != 4 || is.Shards.Whole != is.Shards.Total || is.Shards.Copying+is.Shards.Moves > 0 {
			return fmt.Errorf("%+v", is)
		}
		return nil
	})
}

// awaitStanding waits until a machine's node has a standing, and shards unless it is drained.
func (c *cluster) awaitStanding(machine, standing string) {
	c.t.Helper()
	c.await(machine+": "+standing, func() error {
		is, err := c.chain()
		if err != nil {
			return err
		}
		for _, n := range is.Nodes {
			if n.Name == machine && n.Standing == standing && (n.Shards > 0) == (standing == "up") &&
				is.Shards.Whole == is.Shards.Total && is.Shards.Copying+is.Shards.Moves == 0 {
				return nil
			}
		}
		return fmt.Errorf("%+v", is)
	})
}

// drain drains a machine as for maintenance: its node leaves all chains, and has its shards again afterwards. Meanwhile
// another machine is cordoned, whose node has to stay in its chains.
func (c *cluster) drain() {
	c.t.Helper()
	c.kubectl("drain", replaced, "--ignore-daemonsets", "--force", "--delete-emptydir-data", limitFlag)
	c.await("the node of "+replaced+" is in no chain", func() error {
		_, err := c.onMachine(replaced, "inspect", "--drained")
		return err
	})
	c.awaitStanding(replaced, "cordoned")
	c.kubectl("cordon", kept)
	c.await("the node of "+kept+" stays", func() error {
		is, err := c.chain()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(is.Notes, func(note string) bool {
			return strings.HasPrefix(note, "machine "+kept+" is cordoned, and its node is not drained")
		}) {
			return fmt.Errorf("%q", is.Notes)
		}
		return nil
	})
	c.awaitStanding(kept, "up")
	c.kubectl("uncordon", kept)
	c.kubectl("uncordon", replaced)
	c.awaitStanding(replaced, "up")
}
