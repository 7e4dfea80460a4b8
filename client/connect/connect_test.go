package connect

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
)

// startNode starts a chain of one node on a socket.
func startNode(t *testing.T) *topology.Cluster {
	t.Helper()
	plane, err := soft.Listen(netip.MustParseAddrPort("127.66.13.1:0"),
		chain.Options{Shards: 1, CellBytes: 256, MaxObjects: 100, MaxSessions: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plane.Close() })
	c := &topology.Cluster{
		Epoch: 1, Shards: 1, Nodes: []topology.Node{{Name: "n1", Addr: plane.Addr()}}, Chains: [][]string{{"n1"}},
	}
	if err := plane.ConfigureAll(map[uint16]chain.ShardConfig{0: c.ShardConfig("n1", 0)}); err != nil {
		t.Fatal(err)
	}
	if err := plane.Grant(0, dataplane.Forever); err != nil {
		t.Fatal(err)
	}
	return c
}

// maps serves a cluster's map as controllers do.
type maps struct {
	controllerv1.UnimplementedControllerServer
	cluster *topology.Cluster
	formed  <-chan struct{} // when it is closed, the map has chains; nil: at once
}

func (m maps) Map(_ *controllerv1.MapRequest, out grpc.ServerStreamingServer[controllerv1.MapResponse]) error {
	if m.formed != nil {
		none := []*controllerv1.MapChain{{Shards: []byte{0, 0}}}
		if err := out.Send(&controllerv1.MapResponse{Version: 1, Cluster: "c", Shards: 1, Chains: none}); err != nil {
			return err
		}
		select {
		case <-m.formed:
		case <-out.Context().Done():
		}
	}
	err := out.Send(&controllerv1.MapResponse{
		Version: 2, Cluster: "c", Shards: 1,
		Nodes:  []*controllerv1.MapNode{{Id: 1, Name: "n1", Addr: m.cluster.Nodes[0].Addr.String()}},
		Chains: []*controllerv1.MapChain{{Epoch: 1, Members: []uint32{1}, Shards: []byte{0, 0}}},
	})
	<-out.Context().Done()
	return err
}

func serve(t *testing.T, addr string, m maps, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	controllerv1.RegisterControllerServer(server, m)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// noEnvironment hides the NETCRAQ_* variables of this machine's user.
func noEnvironment(t *testing.T) {
	for _, name := range []string{ClusterVariable, ControllersVariable, IdentityVariable} {
		t.Setenv(name, "")
	}
}

// use opens the cluster, writes and reads.
func use(t *testing.T, o Options) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Open(ctx, o)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Put(ctx, "k", []byte("v")); err != nil {
		return err
	}
	_, err = c.Get(ctx, "k")
	return err
}

func TestOpen(t *testing.T) {
	cluster := startNode(t)
	text, err := cluster.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	certs := t.TempDir()
	if err := security.Make(certs, []string{"127.66.13.2"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	controller, err := security.Load(filepath.Join(certs, "controller"))
	if err != nil {
		t.Fatal(err)
	}
	open := serve(t, "127.66.13.2:0", maps{cluster: cluster})
	secure := serve(t, "127.66.13.2:0", maps{cluster: cluster}, controller.ServerOptions(slog.New(slog.DiscardHandler))...)
	admin := filepath.Join(certs, "admin")
	for name, test := range map[string]struct {
		given       Options
		environment map[string]string
	}{
		"file":                   {given: Options{File: file}},
		"$NETCRAQ_CLUSTER":       {environment: map[string]string{ClusterVariable: file}},
		"controllers":            {given: Options{Controllers: []string{open}}},
		"$NETCRAQ_CONTROLLERS":   {environment: map[string]string{ControllersVariable: "127.66.13.9:1, " + open}},
		"a file goes before it":  {Options{File: file}, map[string]string{ControllersVariable: "127.66.13.9:1"}},
		"identity":               {given: Options{Controllers: []string{secure}, Identity: admin}},
		"$NETCRAQ_IDENTITY":      {Options{Controllers: []string{secure}}, map[string]string{IdentityVariable: admin}},
		"all of the environment": {Options{}, map[string]string{ControllersVariable: secure, IdentityVariable: admin}},
	} {
		t.Run(name, func(t *testing.T) {
			noEnvironment(t)
			for name, value := range test.environment {
				t.Setenv(name, value)
			}
			if err := use(t, test.given); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOpenWaitsForTheFirstChains: a client that starts while the cluster forms, or asks a controller that is behind, waits
// for as long as it may.
func TestOpenWaitsForTheFirstChains(t *testing.T) {
	noEnvironment(t)
	formed := make(chan struct{})
	o := Options{Controllers: []string{serve(t, "127.66.13.2:0", maps{cluster: startNode(t), formed: formed})}}
	brief := o
	brief.Client.Timeout = 100 * time.Millisecond
	if err := use(t, brief); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "waits for nodes") {
		t.Errorf("while the cluster forms: %v", err)
	}
	close(formed)
	if err := use(t, o); err != nil {
		t.Error(err)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	noEnvironment(t)
	ours, others := t.TempDir(), t.TempDir()
	for _, dir := range []string{ours, others} {
		if err := security.Make(dir, []string{"127.66.13.2"}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	controller, err := security.Load(filepath.Join(ours, "controller"))
	if err != nil {
		t.Fatal(err)
	}
	secure := serve(t, "127.66.13.2:0", maps{}, controller.ServerOptions(slog.New(slog.DiscardHandler))...)
	stranger := filepath.Join(others, "admin")
	patient := client.Options{Timeout: time.Minute} // a refusal ends it at once
	for _, test := range []struct {
		given Options
		want  string
		wrong bool // arguments
	}{
		{Options{File: "/nowhere/cluster.yaml"}, "there is no cluster file", false},
		{Options{File: "/nowhere/cluster.yaml"}, "or its controllers with --controllers", false},
		{Options{File: "f", Controllers: []string{"c"}}, "exclude each other", true},
		{Options{Controllers: []string{"127.66.13.9:x"}}, "not a host and port", true},
		{Options{Controllers: []string{"127.66.13.9:1"}}, "127.66.13.9:1: ", false},
		{Options{Controllers: []string{"127.66.13.9:1"}, Identity: "/nowhere"}, "/nowhere", false},
		{Options{Controllers: []string{secure}, Identity: stranger, Client: patient}, "from any controller or node (", false},
	} {
		err := use(t, test.given)
		if err == nil || !strings.Contains(err.Error(), test.want) ||
			strings.Contains(err.Error(), "context deadline") || errors.Is(err, ErrArguments) != test.wrong {
			t.Errorf("%+v: %v", test.given, err)
		}
	}
}
