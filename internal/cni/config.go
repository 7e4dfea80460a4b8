package cni

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"
	_ "github.com/containernetworking/cni/pkg/types/100" // reads results of every version
	"github.com/containernetworking/cni/pkg/version"

	"github.com/netcraq/netcraq/internal/node/pods"
)

// DefaultAddress is where pods reach the chain, unless the configuration names another address.
const DefaultAddress = "169.254.77.1"

// Versions are those of CNI that the plugin speaks: from the first with a chain of plugins on.
var Versions = version.VersionsStartingFrom("0.3.1")

// config is the plugin's part of a network configuration.
type config struct {
	types.PluginConf

	Address   string   `json:"address"`   // IPv4, of no machine
	Directory pods.Dir `json:"directory"` // shared with the agent (--pod-dir)
	Pins      string   `json:"pins"`      // parent of the directories in which nodes pin their data planes

	address netip.Addr
}

func invalid(format string, args ...any) error {
	return types.NewError(types.ErrInvalidNetworkConfig, "netcraq-cni: "+fmt.Sprintf(format, args...), "")
}

func parse(text []byte) (*config, error) {
	c := &config{Address: DefaultAddress, Directory: pods.DefaultDir, Pins: pods.PinRoot}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "netcraq-cni: the configuration is no JSON of this plugin",
			err.Error())
	}
	var err error
	c.address, err = netip.ParseAddr(c.Address)
	switch {
	case err != nil || !c.address.Is4():
		return nil, invalid(`"address" is %q: give an IPv4 address such as %s`, c.Address, DefaultAddress)
	case c.address.IsUnspecified() || c.address.IsLoopback() || c.address.IsMulticast():
		return nil, invalid(`"address" is %v, which no pod can send to by its interface: give one such as %s`, c.address,
			DefaultAddress)
	case c.Directory == "" || c.Pins == "":
		return nil, invalid(`"directory" and "pins" cannot be empty: leave them out for %s and %s`, pods.DefaultDir,
			pods.PinRoot)
	}
	return c, nil
}

// parseChained is parse where a plugin before this one has to have made an interface.
func parseChained(text []byte) (*config, error) {
	c, err := parse(text)
	if err != nil {
		return nil, err
	}
	if err := version.ParsePrevResult(&c.PluginConf); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "netcraq-cni: prevResult cannot be read", err.Error())
	}
	if c.PrevResult == nil {
		return nil, invalid("there is no prevResult: in the list of plugins, put this one behind one that makes " +
			"a veth pair, such as bridge or ptp")
	}
	return c, nil
}
