// Command netcraq-cni is the CNI plugin: a container runtime runs it behind bridge or ptp for every pod, to lead the pod
// to the chain's node on its machine.
package main

import (
	"fmt"
	"os"

	"github.com/containernetworking/cni/pkg/skel"

	"github.com/netcraq/netcraq/internal/cni"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "install" {
		if err := cni.Install(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "netcraq-cni:", err)
			os.Exit(1)
		}
		return
	}
	skel.PluginMainFuncs(cni.Plugin{Log: os.Stderr}.Funcs(), cni.Versions, "netcraq-cni: leads pods to the NetCRAQ node of "+
		"their machine. It reads its command from the environment, as CNI plugins do. `netcraq-cni install DIRECTORY` "+
		"copies it into a directory of plugins.")
}
