package lab

import (
	"strings"

	"github.com/netcraq/netcraq/internal/verify/lab"
)

// memberFlags are etcd's own. Members that lag get a snapshot soon. The kill of a process loses nothing that it has
// written.
func memberFlags(l *lab.Lab, h lab.Host, joins bool) []string {
	client, state := "http://"+memberAddress(h), "new"
	if joins {
		state = "existing"
	}
	return []string{
		"--name=" + h.Name, "--data-dir=" + memberDir(l, h), "--unsafe-no-fsync", "--snapshot-count=1000",
		"--snapshot-catchup-entries=100",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peerURL(h), "--initial-advertise-peer-urls=" + peerURL(h), "--initial-cluster-state=" + state,
		"--initial-cluster=" + strings.Join(onControllers(l, func(h lab.Host) string { return h.Name + "=" + peerURL(h) }), ","),
	}
}

// chainFlags have a member read through the lab's chain.
func chainFlags(l *lab.Lab, h lab.Host) []string {
	return []string{"--chain-controllers=" + strings.Join(l.Controllers(), ","), "--chain-pins=" + gatewayPins(l, h)}
}
