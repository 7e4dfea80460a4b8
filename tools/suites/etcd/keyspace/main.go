// Keyspace stands in for etcd in etcd's tests. It starts $EXPECT_NETCRAQ, if it is set, as a gateway of a keyspace on
// disks, and else etcd, whose program is beside it. Clusters with different tokens are different keyspaces.
package main

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// awaits, as the first argument, has this program wait for the gateway that its parent becomes.
const awaits = "await"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == awaits {
		return await(args[1:])
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	netcraq := os.Getenv("EXPECT_NETCRAQ")
	if netcraq == "" {
		return syscall.Exec(self+".real", append([]string{"etcd"}, args...), os.Environ())
	}
	serves := func(arg string) bool { return strings.HasPrefix(arg, "--data-dir") } // unlike --version and --help
	if !slices.ContainsFunc(args, serves) {
		return syscall.Exec(netcraq, append([]string{"netcraq", "etcd"}, args...), os.Environ())
	}
	flags, err := parse(args)
	if err != nil {
		return err
	}
	gateway, err := flags.gateway()
	if err != nil {
		return err
	}
	waiting := exec.Command(self, awaits, flags["listen-client-urls"], flags["cert-file"], flags["key-file"])
	waiting.Stdout, waiting.Stderr = os.Stdout, os.Stderr
	if err := waiting.Start(); err != nil {
		return err
	}
	command := []string{"netcraq", "keyspace", "--controllers", os.Getenv("EXPECT_CHAIN")}
	return syscall.Exec(netcraq, append(command, gateway...), os.Environ())
}

// await prints the line that etcd's tests wait for when the gateway at the address answers a linearizable read. It ends
// with the gateway.
func await(args []string) error {
	urls, cert, key := args[0], args[1], args[2]
	config := &tls.Config{InsecureSkipVerify: true} // it asks for nothing but the gateway's health
	if cert != "" {
		own, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return err
		}
		config.Certificates = []tls.Certificate{own}
	}
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: config}}
	address, _, _ := strings.Cut(urls, ",")
	for gateway := os.Getppid(); os.Getppid() == gateway; time.Sleep(20 * time.Millisecond) {
		answer, err := client.Get(address + "/health")
		if err != nil {
			continue
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			fmt.Println("ready to serve client requests")
			return nil
		}
	}
	return nil
}

// flags are those of etcd, by name.
type flags map[string]string

// switches are flags of etcd that need no value.
var switches = []string{"auto-tls", "peer-auto-tls", "client-cert-auth", "peer-client-cert-auth", "force-new-cluster"}

func parse(args []string) (flags, error) {
	f := make(flags)
	for len(args) > 0 {
		name, value, has := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		args = args[1:]
		switch {
		case has:
		case slices.Contains(switches, name):
			value = "true"
		case len(args) == 0:
			return nil, fmt.Errorf("--%s has no value", name)
		default:
			value, args = args[0], args[1:]
		}
		f[name] = value
	}
	return f, nil
}

// names are the names that a gateway has for flags of etcd.
var names = map[string]string{
	"name": "member", "data-dir": "data-dir", "listen-metrics-urls": "metrics-addr",
	"cert-file": "cert-file", "key-file": "key-file", "trusted-ca-file": "trusted-ca-file", "auto-tls": "auto-tls",
	"client-crl-file": "client-crl-file", "cipher-suites": "listen-cipher-suites", "tls-min-version": "tls-min-version",
	"tls-max-version": "tls-max-version", "self-signed-cert-validity": "self-signed-cert-validity",
	"quota-backend-bytes": "quota-bytes", "max-request-bytes": "max-request-bytes",
	"watch-progress-notify-interval": "watch-progress-notify-interval",
	"auth-token":                     "auth-token", "auth-token-ttl": "auth-token-ttl", "bcrypt-cost": "bcrypt-cost",
}

// ofRaft begin the names of flags that concern etcd's members, their logs on disk and their own files alone.
var ofRaft = []string{
	"advertise-client-urls", "initial-", "listen-peer-urls", "peer-", "snapshot-c", "strict-reconfig-check", "log-level",
	"heartbeat-interval", "election-timeout", "pre-vote", "backend-", "experimental-", "corrupt-check-time",
	"compact-hash-check", "feature-gates", "client-cert-auth", "warning-", "compaction-", "listen-client-urls",
	"max-wals", "max-snapshots",
	"bootstrap-defrag-threshold-megabytes", "memory-mlock", "logger", "log-outputs",
}

// gateway returns the flags of a gateway.
func (f flags) gateway() (args []string, err error) {
	for name, value := range f {
		switch own := names[name]; {
		case own != "":
			args = append(args, "--"+own+"="+value)
		case !slices.ContainsFunc(ofRaft, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
			return nil, fmt.Errorf("a gateway of a keyspace has no flag for etcd's --%s %s", name, value)
		}
	}
	slices.Sort(args)
	first, more, _ := strings.Cut(f["listen-client-urls"], ",")
	if more != "" {
		return nil, fmt.Errorf("a gateway of a keyspace listens at one URL, and not also at %s", more)
	}
	address, err := url.Parse(first)
	if err != nil {
		return nil, err
	}
	args = append(args, "--listen="+address.Host, "--name="+keyspace(f["initial-cluster-token"]))
	if address.Scheme == "https" {
		args = append(args, "--insecure-skip-tls-verify")
		if cert := f["cert-file"]; cert != "" {
			own := filepath.Join(filepath.Dir(cert), "client-nocn") // gateways want a certificate that names no user
			args = append(args, "--cert="+own+".crt", "--key="+own+".key.insecure", "--cacert="+f["trusted-ca-file"])
		}
	}
	return args, nil
}

// keyspace returns the name of a cluster's keyspace.
func keyspace(token string) string {
	return fmt.Sprintf("%.8x", sha256.Sum256([]byte(token)))
}
