package peer

import (
	"os"
	"os/exec"

	"github.com/netcraq/netcraq/eval/peer/etcd"
)

// classPath lists the jars of Debian's libzookeeper-java for a ZooKeeper server; the first one
// refers to its dependencies.
func classPath() []string {
	return []string{"/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"}
}

// installed returns a MissingError if a part of the system is missing.
func installed(name string) error {
	missing := func(what string) error { return &MissingError{System: name, What: "no " + what} }
	switch name {
	case Etcd:
		if _, err := etcd.Find(); err != nil {
			return missing("etcd server built in .tools/, named by $" + etcd.BinaryVariable + " or on PATH")
		}
	case Redis:
		if _, err := exec.LookPath("redis-server"); err != nil {
			return missing("redis-server on PATH")
		}
	case Memcached:
		if _, err := exec.LookPath("memcached"); err != nil {
			return missing("memcached on PATH")
		}
	case ZooKeeper:
		if _, err := exec.LookPath("java"); err != nil {
			return missing("java on PATH")
		}
		for _, jar := range classPath() {
			if _, err := os.Stat(jar); err != nil {
				return missing(jar)
			}
		}
	}
	return nil
}
