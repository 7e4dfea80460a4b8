package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// clusterName is that of the test's cluster.
const clusterName = "test"

// eventLimit bounds what the test waits for, as kubectl takes it.
const eventLimit = 5 * time.Minute

// replaced is the machine that the test ends. It has no controller and no load.
const replaced = "machine-4"

var loads = []string{"load-1", "load-2"}

// cluster is the one of `netcraq lab kubernetes`.
type cluster struct{ t *testing.T }

// TestCluster runs four kubelets with the product's manifests, and uses the chain from pods: by the stable address on
// every machine, and without a pause while a machine is replaced, the nodes' pods are, and the API server is killed.
func TestCluster(t *testing.T) {
	needRoot(t)
	if !inNamespaces(t, syscall.CLONE_NEWNET) {
		return
	}
	c := &cluster{t}
	t.Cleanup(c.down)
	c.lab("up", "--memory-leases")
	c.allReady()
	if is := c.status(); is.Store != "chain" || !is.MemoryLeases {
		t.Errorf("the gateway does not read from the chain, or leases are not in its memory: %+v", is)
	}
	c.whole()
	c.kubectl("apply", "--filename", "testdata/pods.yaml", "--filename", "testdata/load.yaml")
	c.kubectl("rollout", "status", "daemonset/waiting", limitFlag)
	c.stableAddress()
	c.kubectl("wait", "--for=condition=Ready", "pod", "--selector=app=load", limitFlag)

	c.under("a machine is killed and replaced", func() {
		c.kill(c.machine(replaced).PID)
		c.progress()
		c.lab("up")
		c.allReady()
	})
	c.under("a machine is drained and comes back", c.drain)
	c.under("the nodes of the chain are updated to another version", c.update)
	c.under("the API server is killed", func() {
		c.kill(c.machine("control").Programs["kube-apiserver"])
		c.await("the API server", func() error { _, err := c.try("get", "--raw", "/readyz"); return err })
	})
	c.under("the API server leaves the gateway and comes back", func() {
		c.countThrough("out and in again", configMaps, func() {
			for _, store := range []string{"etcd", "chain", "gateway", "chain"} {
				c.lab("store", store)
				if is := c.status().Store; is != store {
					c.t.Errorf("the API server's store is %q, want %q", is, store)
				}
			}
		})
	})
	c.under("the gateway with the leases is killed", c.leasesInMemory)
	c.under("leases go back to etcd", c.leasesBack)
	c.under("all objects move into a keyspace on disks and back", func() {
		c.countThrough("onto a keyspace, whose gateway is killed, and back", configMaps, c.ontoKeyspace)
	})
	c.whole()
	c.kubectl("delete", "job/stable", "--wait")
	c.kubectl("apply", "--filename", "testdata/pods.yaml")
	c.stableAddress()
}

// ontoKeyspace has a keyspace on disks in etcd's place for a while, and kills its only gateway.
func (c *cluster) ontoKeyspace() {
	c.lab("store", "keyspace")
	const gateway = "netcraq keyspace keyspace-1"
	programs := c.machine("control").Programs
	if is := c.status().Store; is != "keyspace" || programs["netcraq etcd etcd-1"] != 0 {
		c.t.Errorf("the API server's store is %q, and there are %v", is, programs)
	}
	c.kill(programs[gateway])
	c.await("the gateway", func() error {
		if now := c.machine("control").Programs[gateway]; now == 0 || now == programs[gateway] {
			return errors.New("is not back")
		}
		return nil
	})
	c.await("the API server", func() error { _, err := c.try("get", "--raw", "/readyz"); return err })
	c.lab("store", "chain")
}

// isolated marks a process of the test that has namespaces of its own.
const isolated = "NETCRAQ_TEST_ISOLATED"

// inNamespaces reports whether this process has namespaces of its own. If not, it runs the test in a process that has. A
// cluster has fixed addresses, which this machine may use itself.
func inNamespaces(t *testing.T, flags uintptr) bool {
	t.Helper()
	if os.Getenv(isolated) != "" {
		return true
	}
	c := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1", "-test.timeout=15m")
	c.Env = append(os.Environ(), isolated+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	c.Stdout, c.Stderr = os.Stdout, os.Stderr // as it comes: the test takes minutes
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	return false
}

// needRoot skips a test without the rights of root, but not in CI.
func needRoot(t *testing.T) {
	t.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("CI") == "true":
		t.Fatal("needs root")
	default:
		t.Skip("needs root")
	}
}

// nextImage is of the same sources as the one of the manifests, and has another revision.
const (
	nextImage   = "netcraq:next"
	nextArchive = "../../out/images/next/netcraq-linux-" + runtime.GOARCH + ".tar"
	nextVersion = "next"
)

// update gives the nodes of the chain another image, and checks that all of them have its version.
func (c *cluster) update() {
	c.t.Helper()
	archive, err := filepath.Abs(nextArchive)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range c.status().Machines {
		if m.Name == "control" {
			continue
		}
		out, err := exec.Command("nsenter", "--target", strconv.Itoa(m.PID), "--all", "ctr", "--namespace", "k8s.io",
			"images", "import", archive).CombinedOutput()
		if err != nil {
			c.t.Fatalf("%s: %v\n%s", m.Name, err, out)
		}
	}
	if before := c.versions(); slices.Contains(before, nextVersion) {
		c.t.Errorf("before the update: %q", before)
	}
	c.kubectl("--namespace=netcraq", "set", "image", "daemonset/netcraq-node", "node="+nextImage, "cni="+nextImage)
	c.kubectl("--namespace=netcraq", "rollout", "status", "daemonset/netcraq-node", limitFlag)
	if after := c.versions(); !slices.Equal(after, []string{nextVersion, nextVersion, nextVersion, nextVersion}) {
		c.t.Errorf("after the update: %q", after)
	}
}

// versions returns the revisions of the programs in the nodes' pods.
func (c *cluster) versions() (revisions []string) {
	c.t.Helper()
	names := c.kubectl("--namespace=netcraq", "get", "pods", "--selector=app.kubernetes.io/component=node",
		"--no-headers", "--output=custom-columns=NAME:.metadata.name")
	for name := range strings.FieldsSeq(names) {
		var build struct{ Revision string }
		text := c.kubectl("--namespace=netcraq", "exec", name, "--container=node", "--", "/netcraq", "version", "--json")
		if err := json.Unmarshal([]byte(text), &build); err != nil {
			c.t.Fatalf("%s: %v: %q", name, err, text)
		}
		revisions = append(revisions, build.Revision)
	}
	return revisions
}

const limitFlag = "--timeout=300s"

// lab runs a command of the lab, which has to succeed.
func (c *cluster) lab(command string, more ...string) []byte {
	c.t.Helper()
	arguments := []string{"lab", "kubernetes", command, "--name", clusterName}
	if command == "up" {
		more = append([]string{"--programs", programs, "--images", "../../out/images", "--manifests", manifest}, more...)
	}
	cmd := exec.Command(netcraq, append(arguments, more...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	start := time.Now()
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("netcraq lab kubernetes %s: %v\n%s", command, err, &said)
	}
	if command != "status" {
		c.t.Logf("netcraq lab kubernetes %s took %.1f s", command, time.Since(start).Seconds())
	}
	return out
}

// status is what the test needs of `status --json`.
type status struct {
	Kubeconfig   string
	API          string
	Store        string
	MemoryLeases bool `json:"memory_leases"`
	Machines     []machine
}

type machine struct {
	Name     string
	PID      int
	Programs map[string]int
	Ready    bool
	Version  string
}

func (c *cluster) status() (s status) {
	c.t.Helper()
	if err := json.Unmarshal(c.lab("status", "--json"), &s); err != nil {
		c.t.Fatal(err)
	}
	return s
}

func (c *cluster) machine(name string) machine {
	c.t.Helper()
	for _, m := range c.status().Machines {
		if m.Name == name {
			return m
		}
	}
	c.t.Fatalf("no machine %s", name)
	return machine{}
}

// allReady checks that the cluster has four nodes of the version that was compiled.
func (c *cluster) allReady() {
	c.t.Helper()
	nodes := 0
	for _, m := range c.status().Machines {
		if m.Ready && strings.HasPrefix(m.Version, "v1.36.") {
			nodes++
		}
	}
	if nodes != 4 {
		c.t.Fatalf("%d of 4 nodes are ready:\n%s", nodes, c.lab("status"))
	}
}

// kill ends a process as a crash would.
func (c *cluster) kill(pid int) {
	c.t.Helper()
	if pid <= 0 {
		c.t.Fatalf("no process to end: %+v", c.status())
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) try(arguments ...string) (string, error) {
	config := filepath.Join("/run/netcraq/kubernetes", clusterName, "kubeconfig")
	cmd := exec.Command(programs+"/kubectl", append([]string{"--kubeconfig", config}, arguments...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(arguments, " "), err, &said)
	}
	return string(out), err
}

func (c *cluster) kubectl(arguments ...string) string {
	c.t.Helper()
	out, err := c.try(arguments...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

func (c *cluster) await(what string, f func() error) {
	c.t.Helper()
	await(c.t, what, f)
}

// await calls f until it succeeds.
func await(t *testing.T, what string, f func() error) {
	t.Helper()
	for end := time.Now().Add(eventLimit); ; {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not in time: %v", what, err)
		}
		<-time.After(retryPause)
	}
}

// stableAddress waits for the pods of the job, and checks that each was answered by the node of its own machine.
func (c *cluster) stableAddress() {
	c.t.Helper()
	c.kubectl("wait", "--for=condition=Complete", "job/stable", limitFlag)
	rows := c.kubectl("get", "pods", "--selector=app=stable", "--no-headers",
		"--output=custom-columns=NAME:.metadata.name,NODE:.status.hostIP")
	nodes := make(map[string]bool)
	for row := range strings.Lines(rows) {
		name, node, _ := strings.Cut(strings.TrimSpace(row), " ")
		node = strings.TrimSpace(node)
		line := c.kubectl("logs", name)
		var saw struct {
			Version uint64
			ReadBy  string `json:"read_answered_by"`
		}
		if err := json.Unmarshal([]byte(line), &saw); err != nil {
			c.t.Fatalf("%s: %v: %q", name, err, line)
		}
		if saw.ReadBy != node+":4411" || saw.Version == 0 {
			c.t.Errorf("pod %s on %s: %s", name, node, line)
		}
		nodes[node] = true
	}
	if len(nodes) != 4 {
		c.t.Errorf("pods used the stable address on %d of 4 machines:\n%s", len(nodes), rows)
	}
}

// tally is what a pod with load saw.
type tally struct {
	Writes, Reads, Errors, Lost uint64
	LastError                   string `json:"last_error"`
	LongestMs                   int64  `json:"longest_ms"` // since the line before
	Longest                     string
}

func (c *cluster) tally(pod string) (tally, error) {
	line, err := c.try("logs", "--tail=1", pod)
	if err != nil {
		return tally{}, err
	}
	var seen tally
	return seen, json.Unmarshal([]byte(line), &seen)
}

// since is a pod's tally, with the longest operation of those that ended after a number of writes.
func (c *cluster) since(pod string, writes uint64) (tally, error) {
	lines, err := c.try("logs", pod)
	if err != nil {
		return tally{}, err
	}
	return sum(lines, writes)
}

// sum is the last of lines, with the longest operation in those with more than a number of writes.
func sum(lines string, writes uint64) (all tally, err error) {
	for line := range strings.Lines(lines) {
		var seen tally
		if err := json.Unmarshal([]byte(line), &seen); err != nil {
			return tally{}, err
		}
		if ms, longest := all.LongestMs, all.Longest; seen.Writes <= writes {
			seen.LongestMs, seen.Longest = 0, ""
		} else if ms > seen.LongestMs {
			seen.LongestMs, seen.Longest = ms, longest
		}
		all = seen
	}
	return all, nil
}

// progress waits until every pod with load has written more.
func (c *cluster) progress() {
	c.t.Helper()
	for _, pod := range loads {
		first := uint64(0)
		c.await(pod, func() error {
			seen, err := c.tally(pod)
			if err != nil {
				return err
			}
			if first == 0 {
				first = seen.Writes + 1
			}
			if seen.Writes < first {
				return errors.New("no write since then")
			}
			return nil
		})
	}
}

// under runs an event under load: no operation may fail, and none may see another value than the one it wrote.
func (c *cluster) under(event string, f func()) {
	c.t.Helper()
	c.progress()
	writes := make(map[string]uint64)
	for _, pod := range loads {
		seen, err := c.tally(pod)
		if err != nil {
			c.t.Fatal(err)
		}
		writes[pod] = seen.Writes
	}
	f()
	c.progress()
	for _, pod := range loads {
		seen, err := c.since(pod, writes[pod])
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Logf("%s: %s: %+v", event, pod, seen)
		if seen.Errors > 0 || seen.Lost > 0 {
			c.t.Errorf("%s: %s: %d operations failed, %d writes lost; the last error: %s", event, pod, seen.Errors,
				seen.Lost, seen.LastError)
		}
	}
}

// explain logs the cluster's state and the ends of all its logs: nothing of it is left afterwards.
func (c *cluster) explain() {
	const lines = "25"
	status, _ := exec.Command(netcraq, "lab", "kubernetes", "status", "--name", clusterName).CombinedOutput()
	c.t.Logf("%s", status)
	for _, question := range [][]string{
		{"get", "nodes,pods", "--all-namespaces", "--output=wide"},
		{"get", "leases", "--all-namespaces"},
		{"get", "events", "--all-namespaces", "--sort-by=.lastTimestamp", "--field-selector=type=Warning"},
		{"logs", "--all-containers", "--prefix", "--tail=" + lines, "--namespace=netcraq",
			"--selector=app.kubernetes.io/name=netcraq"},
	} {
		out, err := c.try(question...)
		c.t.Logf("kubectl %s: %v\n%s", strings.Join(question, " "), err, out)
	}
	logs, _ := filepath.Glob(filepath.Join("/run/netcraq/kubernetes", clusterName, "*", "*.log"))
	for _, log := range logs {
		end, err := exec.Command("tail", "-n", lines, log).CombinedOutput()
		c.t.Logf("the end of %s: %v\n%s", log, err, end)
	}
}

// down removes the cluster, and checks that nothing is left of it.
func (c *cluster) down() {
	if c.t.Failed() {
		c.explain()
	}
	c.lab("down")
	for _, pattern := range []string{
		filepath.Join("/run/netcraq/kubernetes", clusterName),
		"/sys/fs/cgroup/netcraq-" + clusterName + "-*", "/sys/fs/cgroup/*/netcraq-" + clusterName + "-*",
	} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			c.t.Errorf("left behind: %v", left)
		}
	}
	if device, err := net.InterfaceByName("nqk-" + clusterName); err == nil {
		c.t.Errorf("left behind: %+v", device)
	}
}
