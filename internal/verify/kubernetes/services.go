package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/netcraq/netcraq/internal/cluster/security"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	cniBin           = "/opt/cni/bin"
	cniConfig        = "/etc/cni/net.d"
	// debianCNI is where Debian has the plugins that ours is chained behind.
	debianCNI = "/usr/lib/cni"
)

// Configurations of a worker, which other machines do not see.
const (
	containerdFile = "/etc/netcraq-lab/containerd.toml"
	kubeletFile    = "/etc/netcraq-lab/kubelet.yaml"
)

// Files of the cluster's directory.
const (
	accountKey = "accounts.key"
	tokenFile  = "tokens.csv"
	apiCert    = "apiserver.crt"
	apiKey     = "apiserver.key"
)

var containerd = service{"containerd", []string{"containerd", "--config", containerdFile}}

// controlServices are the programs of the control machine.
func (s *state) controlServices() []service {
	o := s.Options
	at := func(file string) string { return filepath.Join(inside, file) }
	program := func(name string) string { return filepath.Join(o.Programs, name) }
	var api []service
	if !s.APIAway {
		api = []service{s.api()}
	}
	elect := fmt.Sprintf("--leader-elect=%t", s.MemoryLeases) // with a single instance it is for its leases only
	return slices.Concat(s.storeServices(), []service{s.gateway()}, api, []service{
		{managerProgram, []string{program(managerProgram), "--kubeconfig=" + at(managerProgram),
			"--use-service-account-credentials", elect, "--service-account-private-key-file=" + at(accountKey),
			"--root-ca-file=" + at(apiCert)}},
		{schedulerProgram, []string{program(schedulerProgram), "--kubeconfig=" + at(schedulerProgram), elect}},
	}, s.memoryGateways())
}

// api is the API server.
func (s *state) api() service {
	at := func(file string) string { return filepath.Join(inside, file) }
	return service{apiProgram, append([]string{filepath.Join(s.Options.Programs, apiProgram),
		"--etcd-servers=" + strings.Join(s.storeURLs(), ","), fmt.Sprintf("--watch-cache=%t", !s.NoWatchCache),
		"--tls-cert-file=" + at(apiCert), "--tls-private-key-file=" + at(apiKey),
		"--bind-address=" + controlAddr, "--advertise-address=" + controlAddr,
		fmt.Sprintf("--secure-port=%d", apiPort), "--endpoint-reconciler-type=none", "--allow-privileged",
		"--authorization-mode=Node,RBAC", "--token-auth-file=" + at(tokenFile),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://netcraq.lab", "--service-account-key-file=" + at(accountKey),
		"--service-account-signing-key-file=" + at(accountKey), "--service-cluster-ip-range=" + serviceNet},
		s.storeOfLeases()...)}
}

// Names of programs of the control machine, as [childrenOf] gives them.
const (
	etcdProgram    = "netcraq etcd" // and its name
	gatewayProgram = "netcraq gateway"
	memoryProgram  = "netcraq gateway --memory" // and its address

	apiProgram       = "kube-apiserver"
	managerProgram   = "kube-controller-manager"
	schedulerProgram = "kube-scheduler"
)

// storeURLs are what the API server uses as those of its etcd.
func (s *state) storeURLs() []string {
	if s.Direct {
		return s.Options.EtcdURLs()
	}
	return []string{GatewayURL}
}

// gateway begins without a chain: the nodes of its chain are pods, which the API server behind it has to know first.
func (s *state) gateway() service {
	argv := []string{s.Options.Netcraq, "gateway", "--etcd-endpoints", strings.Join(s.Options.EtcdURLs(), ","),
		"--listen", gatewayAddr}
	if s.Joined {
		argv = append(argv, s.chainFlags()...)
	}
	return service{"gateway", argv}
}

// memoryGateways keep the leases in the chain's memory.
func (s *state) memoryGateways() (all []service) {
	if !s.MemoryLeases {
		return nil
	}
	for i, addr := range memoryAddrs {
		all = append(all, service{fmt.Sprintf("memory-%d", i+1), []string{s.Options.Netcraq, "gateway", "--memory",
			"--listen", addr}})
		all[i].argv = append(all[i].argv, s.chainFlags()...)
	}
	return all
}

// storeOfLeases are the API server's arguments for it.
func (s *state) storeOfLeases() []string {
	if !s.MemoryLeases {
		return nil
	}
	var urls []string
	for _, addr := range memoryAddrs {
		urls = append(urls, "http://"+addr)
	}
	return []string{"--etcd-servers-overrides=coordination.k8s.io/leases#" + strings.Join(urls, ";")}
}

// chainFlags name a gateway's chain.
func (s *state) chainFlags() []string {
	flags := []string{"--controllers", chainControllers()}
	if s.Options.Tags {
		flags = append(flags, "--identity", filepath.Join(inside, identitiesDir, string(security.Operator)))
	}
	return flags
}

// chainControllers are the addresses of the controllers of deploy/manifests.
func chainControllers() string {
	var addrs []string
	for _, h := range workerHosts()[:3] {
		addrs = append(addrs, h.addr)
	}
	return strings.Join(addrs, ",")
}

func (s *state) kubelet(h host) service {
	return service{"kubelet", []string{filepath.Join(s.Options.Programs, "kubelet"),
		"--config=" + kubeletFile, "--kubeconfig=" + filepath.Join(inside, h.name, "kubeconfig"),
		"--hostname-override=" + h.name, "--node-ip=" + h.addr,
		fmt.Sprintf("--node-labels=topology.kubernetes.io/zone=zone-%d", h.number)}}
}

// configure writes the configurations of a worker's programs, and links the CNI plugins to their place.
func (s *state) configure(h host) error {
	files := map[string]string{
		containerdFile:                     containerdConfig,
		kubeletFile:                        fmt.Sprintf(kubeletConfig, groupOf(s.Options.Name, h.name), containerdSocket),
		cniConfig + "/10-netcraq.conflist": fmt.Sprintf(networkConfig, h.pods, h.podGateway()),
	}
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return errors.Join(s.linkIdentities(), s.linkPlugins())
}

func (s *state) linkPlugins() error {
	if err := os.MkdirAll(cniBin, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"bridge", "host-local", "loopback"} {
		if err := link(filepath.Join(debianCNI, name), filepath.Join(cniBin, name)); err != nil {
			return err
		}
	}
	plugin := filepath.Join(filepath.Dir(s.Options.Netcraq), "netcraq-cni")
	return link(plugin, filepath.Join(cniBin, filepath.Base(plugin)))
}

// link makes a symbolic link in the place of what is there.
func link(to, at string) error {
	if _, err := os.Stat(to); err != nil {
		return err
	}
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	return os.Symlink(to, at)
}

// AppArmor and scores below the machine's own need rights that a machine of the cluster may lack.
const containerdConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "` + containerdSocket + `"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + PodImage + `"
  restrict_oom_score_adj = true
  disable_apparmor = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "` + cniBin + `"
    conf_dir = "` + cniConfig + `"

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
`

// Any user of the machines' network may ask a kubelet: the network ends in the lab.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
featureGates: {KubeletInUserNamespace: true} # errors of settings that only a whole machine may change are ignored
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /%s
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
failSwapOn: false
localStorageCapacityIsolation: false
evictionHard: {memory.available: 1Mi}
imageGCHighThresholdPercent: 100
containerRuntimeEndpoint: unix://%s
resolvConf: ""
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
`

const networkConfig = `{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {"type": "bridge", "bridge": "cni0", "isGateway": true,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": %q, "gateway": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "netcraq-cni", "address": "169.254.77.1"}
  ]
}
`
