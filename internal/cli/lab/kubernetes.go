package lab

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/verify/kubernetes"
)

// These manifests are rendered by `make chart`.
const (
	kubernetesManifests     = "deploy/manifests/netcraq.yaml"
	kubernetesWithTags      = "deploy/manifests/tags/netcraq.yaml"
	kubernetesManifestsFlag = "manifests"
)

// kubernetesFolder and imagesFolder are where `make kubernetes` puts its programs and images.
const (
	kubernetesFolder = "out/kubernetes"
	imagesFolder     = "out/images"
)

func newKubernetesCommand(name *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "kubernetes",
		Short: "Run a Kubernetes cluster of four kubelets on this machine (root)",
		Long: `Run a Kubernetes cluster on this machine: an API server whose etcd is behind netcraq gateway, a scheduler, a
controller manager, and four kubelets. Each kubelet has a containerd, and namespaces for processes, mounts and network.
Pods get their network from the plugin bridge, with netcraq-cni behind it. The nodes of the chain are a DaemonSet.

make kubernetes compiles Kubernetes and packs the images. The cluster uses the addresses 192.0.2.0/24, so only one can
be up at a time. It keeps its data in memory: down leaves nothing, and a machine that is replaced begins empty.`,
		Example: `  make kubernetes
  netcraq lab kubernetes up
  kubectl --kubeconfig /run/netcraq/kubernetes/lab/kubeconfig get nodes
  netcraq lab kubernetes status
  netcraq lab kubernetes down`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newKubernetesUpCommand(name), newKubernetesDownCommand(name), newKubernetesStatusCommand(name),
		newKubernetesStoreCommand(name), newKubernetesLeasesCommand(name),
		newKubernetesMachineCommand(name))
	return c
}

// KubernetesFlags are the paths of a cluster's programs, images and manifests.
type KubernetesFlags struct{ programs, images, manifests string }

// KubernetesDefaults are the flags that were not given.
func KubernetesDefaults() *KubernetesFlags {
	return &KubernetesFlags{kubernetesFolder, imagesFolder, kubernetesManifests}
}

// Add defines the flags.
func (k *KubernetesFlags) Add(f *pflag.FlagSet) {
	*k = *KubernetesDefaults()
	f.StringVar(&k.programs, "programs", k.programs, "`directory` with the programs of Kubernetes")
	f.StringVar(&k.images, "images", k.images, "`directory` with the images")
	f.StringVar(&k.manifests, kubernetesManifestsFlag, k.manifests, "`file` with the manifests of the chain's nodes")
}

// Options makes paths absolute: a machine of the cluster starts in another directory.
func (k *KubernetesFlags) Options(name string) (kubernetes.Options, error) {
	o, err := kubernetesOptions(name, k.programs, k.images)
	if err != nil {
		return o, err
	}
	o.Manifests, err = filepath.Abs(k.manifests)
	return o, err
}

func newKubernetesStoreCommand(name *string) *cobra.Command {
	var noWatchCache bool
	c := &cobra.Command{
		Use:   "store etcd|gateway|chain|member|keyspace",
		Short: "Take the API server off its gateway, or put it back",
		Long: `Restart the API server so that it uses etcd directly, a gateway without a cache, a gateway that answers reads
from the chain, or etcd whose members read through the chain. All these are the same etcd. With keyspace all objects are
moved into a new keyspace on disks, whose gateways take the place of etcd's members, and later back into etcd.`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: storeNames(),
		RunE: func(c *cobra.Command, args []string) error {
			want := kubernetes.Serving{Store: kubernetes.Store(args[0]), NoWatchCache: noWatchCache}
			return kubernetes.Use(c.Context(), *name, want, progressTo(c.ErrOrStderr()))
		},
	}
	c.Flags().BoolVar(&noWatchCache, "no-watch-cache", false, "start the API server without its watch cache")
	return c
}

// Places of leases, on the command line.
const (
	leasesInEtcd   = "etcd"
	leasesInMemory = "memory"
)

func newKubernetesLeasesCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "leases etcd|memory",
		Short: "Have the API server keep leases in the chain's memory, or in etcd",
		Long: `Start two memory gateways, and restart the API server so that it keeps the objects of coordination.k8s.io/leases
there; or take it off them. With leases in memory, controller manager and scheduler use leader election. Returns when
every node has renewed its lease.`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{leasesInEtcd, leasesInMemory},
		RunE: func(c *cobra.Command, args []string) error {
			return kubernetes.UseLeases(c.Context(), *name, args[0] == leasesInMemory, progressTo(c.ErrOrStderr()))
		},
	}
}

func newKubernetesUpCommand(name *string) *cobra.Command {
	var flags KubernetesFlags
	chain, memoryLeases, tags := true, false, false
	c := &cobra.Command{
		Use:   "up",
		Short: "Bring the cluster up, or replace machines that have ended",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if tags && !c.Flags().Changed(kubernetesManifestsFlag) {
				flags.manifests = kubernetesWithTags
			}
			o, err := flags.Options(*name)
			if err != nil {
				return err
			}
			if !chain {
				o.Manifests = ""
			}
			o.Tags = tags
			o.MemoryLeases = memoryLeases
			o.Progress = progressTo(c.ErrOrStderr())
			if err := kubernetes.Up(c.Context(), o); err != nil {
				return err
			}
			status, err := kubernetes.StatusOf(c.Context(), *name)
			if err != nil {
				return err
			}
			printCluster(c.OutOrStdout(), status)
			fmt.Fprintf(c.OutOrStdout(), "\nTry:\n  export KUBECONFIG=%s\n  %s get nodes\n",
				status.Kubeconfig, filepath.Join(o.Programs, "kubectl"))
			return nil
		},
	}
	flags.Add(c.Flags())
	c.Flags().BoolVar(&chain, "chain", chain, "run the manifests' nodes, and let the gateway read from their chain")
	c.Flags().BoolVar(&tags, "tags", tags,
		"make certificates, and run the nodes of "+kubernetesWithTags+", whose chain requires tags")
	c.Flags().BoolVar(&memoryLeases, "memory-leases", memoryLeases,
		"keep the leases of a new cluster in the chain's memory; lab kubernetes leases changes it later")
	return c
}

func kubernetesOptions(name, programs, images string) (o kubernetes.Options, err error) {
	o.Name = name
	if o.Netcraq, err = cli.ProductPath(); err != nil {
		return o, err
	}
	if o.Programs, err = filepath.Abs(programs); err != nil {
		return o, err
	}
	for _, image := range []string{"netcraq", "netcraq-pod"} {
		path, err := filepath.Abs(filepath.Join(images, image+"-linux-"+runtime.GOARCH+".tar"))
		if err != nil {
			return o, err
		}
		o.Images = append(o.Images, path)
	}
	// The program itself, and not netcraq, which it would replace: a process has no namespaces in /proc while one of its
	// threads replaces the program.
	program, err := cli.FindProgram(cli.LabName)
	if err != nil {
		return o, err
	}
	o.Machine = func(machine string) []string {
		return []string{program, "lab", "kubernetes", "machine", machine, "--name", name}
	}
	return o, nil
}

func newKubernetesDownCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Remove the cluster or its remains, with everything that runs in it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			was, err := kubernetes.Down(c.Context(), *name)
			if err != nil {
				return err
			}
			if !was {
				fmt.Fprintf(c.OutOrStdout(), "cluster %q is not up; nothing to do\n", *name)
				return nil
			}
			fmt.Fprintf(c.OutOrStdout(), "cluster %q is gone\n", *name)
			return nil
		},
	}
}

func newKubernetesStatusCommand(name *string) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "List machines, nodes and pods",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			status, err := kubernetes.StatusOf(c.Context(), *name)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(c.OutOrStdout(), status)
			}
			printCluster(c.OutOrStdout(), status)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// newKubernetesMachineCommand is the first process of a machine, which `up` starts.
func newKubernetesMachineCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:    "machine MACHINE",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return kubernetes.RunMachine(*name, args[0]) },
	}
}

func storeNames() (names []string) {
	for _, s := range kubernetes.Stores {
		names = append(names, string(s))
	}
	return names
}

// storeTexts describe stores in the output of status.
var storeTexts = map[kubernetes.Store]string{
	kubernetes.StoreEtcd:     "etcd without a gateway",
	kubernetes.StoreGateway:  "gateway without a chain",
	kubernetes.StoreChain:    "gateway with the nodes' chain",
	kubernetes.StoreMember:   "etcd that reads through the nodes' chain",
	kubernetes.StoreKeyspace: "keyspace on disks",
}

func printCluster(w io.Writer, s *kubernetes.Status) {
	store := storeTexts[s.Store]
	if s.MemoryLeases {
		store += ", leases in its memory"
	}
	fmt.Fprintf(w, "\n  cluster %s · API server: %s · %s · logs in %s\n\n", s.Name, s.API, store, s.Directory)
	table := cli.NewTable(w)
	defer table.Flush()
	fmt.Fprintln(table, "  machine\taddress\tprocess\tnode\tpods ready\tversion\truntime")
	for _, m := range s.Machines {
		process, node, pods := fmt.Sprint(m.PID), "not ready", fmt.Sprintf("%d of %d", m.Running, m.Pods)
		if m.PID == 0 {
			process = "ended"
		}
		if m.Ready {
			node = "ready"
		}
		if m.Name == kubernetes.Control {
			node, pods = "-", "-"
		}
		row := []string{m.Version, m.Runtime}
		if slices.Equal(row, []string{"", ""}) {
			row = []string{"-", "-"}
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.Address, process, node, pods, row[0], row[1])
	}
}
