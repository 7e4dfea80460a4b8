//go:build cluster_proxy

// This file replaces one of etcd's framework for integration tests: clients are clients of gateways, not of the proxy
// that is compiled in.
package integration

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
)

const ThroughProxy = true

// ToGRPC returns the services that a client's connection leads to.
func ToGRPC(c *clientv3.Client) GRPCAPI {
	conn := c.ActiveConnection()
	return GRPCAPI{
		pb.NewClusterClient(conn), pb.NewKVClient(conn), pb.NewLeaseClient(conn), pb.NewWatchClient(conn),
		pb.NewMaintenanceClient(conn), pb.NewAuthClient(conn), v3lockpb.NewLockClient(conn),
		v3electionpb.NewElectionClient(conn),
	}
}

// newClientV3 returns a client of a cluster whose limit of requests is not known.
func newClientV3(cfg clientv3.Config) (*clientv3.Client, error) { return newClientOf(0, cfg) }

// newClientOf returns a client with a gateway of its own, if $EXPECT_NETCRAQ names the program. The members take
// requests of so many bytes; 0: the default. The certificates of these tests have names, which a gateway does not take:
// clients with TLS use etcd itself.
func newClientOf(maxRequestBytes uint, cfg clientv3.Config) (*clientv3.Client, error) {
	if cfg.TLS != nil || os.Getenv("EXPECT_NETCRAQ") == "" {
		return newWritten(cfg)
	}
	// A client may send more than the members take: then they say so.
	address, stop, err := startGateway(cfg.Endpoints, max(int(maxRequestBytes), cfg.MaxCallSendMsgSize))
	if err != nil {
		return nil, err
	}
	cfg.Endpoints = []string{address}
	if os.Getenv("NETCRAQ_PLACE") != "" {
		cfg.DialOptions = append(cfg.DialOptions, newPlacer(address).option())
	}
	c, err := clientv3.New(cfg)
	if err != nil {
		stop()
		return nil, err
	}
	c.Watcher = &closing{Watcher: c.Watcher, stop: stop}
	return c, nil
}

// newWritten returns a client of an etcd that another client writes to, if $NETCRAQ_WRITES is set.
func newWritten(cfg clientv3.Config) (*clientv3.Client, error) {
	c, err := clientv3.New(cfg)
	if err != nil || os.Getenv("NETCRAQ_WRITES") == "" || cfg.TLS != nil || cfg.Username != "" {
		return c, err
	}
	other, err := clientv3.New(cfg)
	if err != nil {
		c.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	began, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n++ {
			other.Put(ctx, "/netcraq/gateway/write", "")
			if n == writesBefore {
				close(began)
			}
			time.Sleep(writePause)
		}
	}()
	select {
	case <-began:
	case <-time.After(writeLimit): // etcd has no leader yet
	}
	c.Watcher = &closing{Watcher: c.Watcher, stop: sync.OnceFunc(func() {
		cancel()
		<-ended
		other.Close()
	})}
	return c, nil
}

// A gateway that caches writes about so often when it starts, and then now and then.
const (
	writesBefore = 4
	writePause   = 10 * time.Millisecond
	writeLimit   = 3 * time.Second
)

// closing ends the gateway of a client with the client.
type closing struct {
	clientv3.Watcher
	stop func() // may be called more than once
}

func (c *closing) Close() error {
	err := c.Watcher.Close()
	c.stop()
	return err
}

// startGateway starts a gateway that caches in the chain of the cluster file $EXPECT_CHAIN. It leaves no goroutine,
// which the tests would find if they do not close the client.
func startGateway(etcd []string, maxRequestBytes int) (address string, stop func(), err error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	address = free.Addr().String()
	free.Close()
	command := exec.Command(os.Getenv("EXPECT_NETCRAQ"), "gateway", "--listen", address, "--cluster", os.Getenv("EXPECT_CHAIN"),
		"--endpoints", strings.Join(etcd, ","), "--pin", "")
	if maxRequestBytes > 0 {
		command.Args = append(command.Args, "--max-request-bytes", fmt.Sprint(maxRequestBytes))
	}
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	stop = sync.OnceFunc(func() {
		countHits(address)
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
	})
	for end := time.Now().Add(startLimit); ; time.Sleep(startPause) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return address, stop, conn.Close()
		}
		if time.Now().After(end) {
			stop()
			return "", nil, fmt.Errorf("the gateway of %v did not start: %w", etcd, err)
		}
	}
}

const (
	startLimit = 10 * time.Second
	startPause = 10 * time.Millisecond
)

// countHits prints how many reads the chain answered.
func countHits(address string) {
	// The tests look for goroutines that are left.
	pages := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := pages.Get("http://" + address + "/proxy/metrics")
	if err != nil {
		return
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		var hits int
		if n, _ := fmt.Sscanf(lines.Text(), "netcraq_gateway_hits_total %d", &hits); n == 1 {
			fmt.Printf("\ngateway: %d reads from the chain\n", hits)
		}
	}
}
