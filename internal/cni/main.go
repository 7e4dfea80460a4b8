package cni

import (
	"fmt"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
)

// Main is the program netcraq-cni.
func Main() {
	if len(os.Args) == 3 && os.Args[1] == "install" {
		if err := Install(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "netcraq-cni:", err)
			os.Exit(1)
		}
		return
	}
	skel.PluginMainFuncs(Plugin{Log: os.Stderr}.Funcs(), Versions, "netcraq-cni: leads pods to the NetCRAQ node of "+
		"their machine. It reads its command from the environment, as CNI plugins do. `netcraq-cni install DIRECTORY` "+
		"copies it into a directory of plugins.")
}
