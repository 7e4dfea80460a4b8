// Command netcraq-cni is the CNI plugin: a container runtime runs it behind bridge or ptp for every pod, to lead the pod
// to the chain's node on its machine.
package main

import "github.com/netcraq/netcraq/internal/cni"

func main() { cni.Main() }
