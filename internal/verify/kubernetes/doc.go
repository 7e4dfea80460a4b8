// Package kubernetes brings up a Kubernetes cluster of real programs on one machine: an API server behind the product's
// gateway, and four kubelets, each with a containerd of its own.
//
// A machine of the cluster is a process in PID, mount, network, UTS and IPC namespaces of its own. It starts the
// machine's programs, starts them again when they end, and waits for their orphans. When it is killed, the kernel ends
// everything in its PID namespace, containers among it, and removes the namespaces with their mounts and links. What a
// machine writes is on file systems in memory that only its mount namespace has. So [Down] has three things left to
// remove: control groups, the cluster's directory, and the machine's own end of a link, if that is still there.
package kubernetes
