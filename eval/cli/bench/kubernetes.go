package bench

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/deployment"
	clilab "github.com/netcraq/netcraq/internal/cli/lab"
	"github.com/netcraq/netcraq/internal/verify/kubernetes"
)

// kubernetesBenchCluster is the name of the cluster.
const kubernetesBenchCluster = "bench"

func newBenchKubernetesCommand(out *benchOutput) *cobra.Command {
	o := deployment.Defaults()
	var flags clilab.KubernetesFlags
	var stores []string
	for _, s := range kubernetes.Stores {
		stores = append(stores, string(s))
	}
	var noWatchCache bool
	var members int
	c := &cobra.Command{
		Use:   "kubernetes",
		Short: "The Kubernetes paper's experiment on four kubelets: a Deployment grows to 25 pods and is removed",
		Long: `Bring up the cluster of 'lab kubernetes', let a Deployment grow from 2 to 25 pods and remove it, and count the
requests at etcd. The API server uses etcd directly, a gateway that caches nothing, a gateway that answers reads from
the chain, etcd whose members read through the chain, or a keyspace on disks, in turn on one cluster. make kubernetes
compiles Kubernetes first.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Cluster, err = flags.Options(kubernetesBenchCluster); err != nil {
				return err
			}
			o.Cluster.Members, o.Serving = members, nil
			for _, s := range stores {
				o.Serving = append(o.Serving, kubernetes.Serving{Store: kubernetes.Store(s), NoWatchCache: noWatchCache})
			}
			o.Progress = out.progress()
			return reportBench(c, out, func(ctx context.Context) (*deployment.Result, error) {
				return deployment.Run(ctx, o)
			})
		},
	}
	f := c.Flags()
	f.IntVar(&members, "members", kubernetes.MostMembers, "number of etcd's members")
	flags.Add(f)
	f.StringSliceVar(&stores, "stores", stores, "what the API server uses: etcd, gateway, chain, member or keyspace")
	f.BoolVar(&noWatchCache, "no-watch-cache", false, "run the API server without its watch cache, so that it reads its store")
	f.IntVar(&o.Pods, "pods", o.Pods, "number of pods at most")
	f.IntVar(&o.First, "first", o.First, "number of pods before")
	f.DurationVar(&o.Hold, "hold", o.Hold, "time for which all pods run")
	f.IntVar(&o.Requests, "requests", o.Requests, "number of reads, and of updates, whose latency is measured")
	f.DurationVar(&o.Lists, "lists", o.Lists, "time for which consistent lists are measured")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "number of rounds")
	return c
}
