package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// units are those of a machine, in the order in which docs/install.md starts them.
var units = []string{"netcraq-controller", "netcraq-node", "netcraq-keyspace"}

const controllers = "192.0.2.1,192.0.2.2,192.0.2.3"

// set installs a package on machine n, and configures its units for a cluster of three machines. The keyspace may read the
// memory of the machine's node.
func (m *machine) set(deb string, n int) {
	m.t.Helper()
	m.install(deb)
	m.must("mkdir", "-p", "/etc/systemd/system/netcraq-keyspace.service.d")
	m.must("ln", "-s", "/usr/share/netcraq/local-reads.conf", "/etc/systemd/system/netcraq-keyspace.service.d/")
	m.must("systemctl", "daemon-reload")
	m.configure("controller.yaml", fmt.Sprintf("name: c%d\nshards: 16\n"+
		"initial-cluster: [c1=192.0.2.1, c2=192.0.2.2, c3=192.0.2.3]\n", n))
	m.configure("node.yaml", fmt.Sprintf("name: n%d\naddr: 192.0.2.%d:4411\njoin: [%s]\nmetrics: 192.0.2.%d:9414\n"+
		"port-if: [eth0]\n", n, n, controllers, n))
	m.configure("keyspace.yaml", fmt.Sprintf("listen: 192.0.2.%d:2379\ncontrollers: [%s]\n", n, controllers))
}

// etcd calls a method of etcd's KV service at the gateway of machine n's keyspace, in JSON, until it succeeds: at first
// no gateway may be active.
func etcd(m *machine, n int, method, request string) (answer string) {
	m.t.Helper()
	m.await("etcd's "+method, func() (string, bool) {
		out, err := m.run("curl", "--silent", "--show-error", "--fail", "--max-time", "10",
			fmt.Sprintf("http://192.0.2.%d:2379/v3/kv/%s", n, method), "--data", request)
		answer = out
		return out, err == nil
	})
	return answer
}

// whole waits until all shards have three members.
func (m *machine) whole() {
	m.t.Helper()
	m.await("shards", func() (string, bool) {
		out, err := m.run("netcraq", "status", "--controllers", controllers)
		return out, err == nil && strings.Contains(out, "16 whole")
	})
}

// use writes a key and reads it.
func (m *machine) use(key string) {
	m.t.Helper()
	m.must("netcraq", "put", key, "value of "+key, "--controllers", controllers, "--timeout", "1m")
	m.has(key)
}

func (m *machine) has(key string) {
	m.t.Helper()
	got := m.must("netcraq", "get", key, "--controllers", controllers, "--timeout", "1m")
	if strings.TrimSpace(got) != "value of "+key {
		m.t.Errorf("%s is %q", key, got)
	}
}

// readsLocally expects that a keyspace's gateway, which runs as a user of its own, reads its machine's node.
func (m *machine) readsLocally() {
	m.t.Helper()
	m.await("reads from the node's memory", func() (string, bool) {
		log := m.must("journalctl", "--no-pager", "--unit=netcraq-keyspace")
		return log, strings.Contains(log, "reads use the memory of a node on this machine")
	})
}

// outlived expects that the data plane answered while its node's unit restarted.
func (m *machine) outlived() {
	m.t.Helper()
	log := m.must("journalctl", "--no-pager", "--unit=netcraq-node")
	if !strings.Contains(log, "data plane in the kernel keeps answering") || strings.Contains(log, "private mount namespace") {
		m.t.Errorf("machine %d: the data plane ended with its agent: %s", m.number, log)
	}
}

// upgrade installs a package, and checks that each unit runs its programs and that the configuration stays.
func (m *machine) upgrade(deb string) {
	m.t.Helper()
	before, process := m.must("cat", "/etc/netcraq/node.yaml"), make(map[string]string)
	for _, unit := range units {
		process[unit] = m.started(unit)
	}
	m.install(deb)
	for _, unit := range units {
		if m.ready(unit); m.started(unit) == process[unit] {
			m.t.Errorf("machine %d: the upgrade did not start %s again", m.number, unit)
		}
	}
	if m.must("cat", "/etc/netcraq/node.yaml") != before {
		m.t.Error("the upgrade changed a configuration file")
	}
}

// remove purges the package, which leaves nothing.
func (m *machine) remove() {
	m.t.Helper()
	m.must("apt-get", "purge", "--yes", "netcraq")
	if left := m.left(); len(left) > 0 {
		m.t.Errorf("machine %d: the package left %q", m.number, left)
	}
	if out, err := m.run("getent", "passwd", "netcraq"); err == nil {
		m.t.Errorf("machine %d: the user is left: %s", m.number, out)
	}
}

// TestInstalled installs a package on three machines with a fresh Debian and systemd, enables its units, which form a
// cluster with a keyspace on disks, cuts a machine's power, boots it again, upgrades all of them, and removes the
// package. `make test-package` runs it, in namespaces of its own.
func TestInstalled(t *testing.T) {
	first, next, image := os.Getenv("PACKAGE"), os.Getenv("NEXT_PACKAGE"), os.Getenv("DEBIAN")
	if first == "" || next == "" || image == "" {
		t.Skip("make test-package names the packages")
	}
	sh(t, fmt.Sprintf("mount --make-rprivate /; mount -t tmpfs tmpfs /run; mkdir -p %s /run/netns; tar -C %[1]s -xf %s\n"+
		"ip link set lo up; ip link add switch0 type bridge; ip link set switch0 up", debian, image))
	var three []*machine
	for n := 1; n <= 3; n++ {
		m := newMachine(t, n)
		m.boot()
		m.set(first, n)
		m.must(append([]string{"systemctl", "enable", "--now", "--no-block"}, units...)...)
		three = append(three, m)
	}
	for _, m := range three {
		for _, unit := range units {
			m.ready(unit)
		}
	}
	three[0].whole()
	three[0].use("formed")
	etcd(three[0], 1, "put", `{"key": "Zm9v", "value": "YmFy"}`)
	three[0].readsLocally()
	t.Log(three[0].must("netcraq", "status", "--controllers", controllers))

	three[2].cutPower()
	three[0].use("repaired")
	three[2].boot()
	for _, unit := range units {
		three[2].ready(unit) // they are enabled
	}
	three[2].whole()
	three[2].use("booted")

	for _, m := range three {
		m.upgrade(next)
		m.whole()
		m.outlived()
	}
	three[1].use("upgraded")
	for n := 1; n <= 3; n++ {
		if answer := etcd(three[0], n, "range", `{"key": "Zm9v"}`); !strings.Contains(answer, `"value":"YmFy"`) {
			t.Errorf("machine %d: the keyspace answers %s", n, answer)
		}
	}
	for _, key := range []string{"formed", "repaired", "booted"} {
		three[0].has(key)
	}
	for _, m := range slices.Backward(three) {
		m.remove()
	}
}
