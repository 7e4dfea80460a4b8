package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/netcraq/netcraq/internal/cluster/security"
)

// MostMembers is the highest number of members of a cluster's etcd.
const MostMembers = 3

// etcdMember is a member of the etcd on the control machine. It listens on an address of the loopback device of its own.
type etcdMember struct {
	name         string
	client, peer string // addresses
}

// etcdMembers are those of the cluster's etcd.
func (o *Options) etcdMembers() (all []etcdMember) {
	for n := 1; n <= max(1, o.Members); n++ {
		host := fmt.Sprintf("127.0.0.%d", n)
		all = append(all, etcdMember{fmt.Sprintf("etcd-%d", n), host + ":2379", host + ":2380"})
	}
	return all
}

// program is the name of a member's program, as [childrenOf] gives it.
func (m *etcdMember) program() string { return etcdProgram + " " + m.name }

// memberNameFlag and a name are the first argument of a member.
const memberNameFlag = "--name="

// etcdServices are the members of etcd. Without a flag of the chain they are plain etcd.
func (s *state) etcdServices() (all []service) {
	for _, m := range s.Options.etcdMembers() {
		client, peer := "http://"+m.client, "http://"+m.peer
		argv := []string{s.Options.Netcraq, "etcd", memberNameFlag + m.name,
			"--data-dir=" + filepath.Join(controlData, m.name), "--listen-client-urls=" + client,
			"--advertise-client-urls=" + client, "--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer, "--initial-cluster=" + s.Options.initialCluster(), "--log-level=warn"}
		all = append(all, service{m.name, append(argv, s.memberFlags()...)})
	}
	return all
}

// initialCluster is etcd's flag of that name.
func (o *Options) initialCluster() string {
	var peers []string
	for _, m := range o.etcdMembers() {
		peers = append(peers, m.name+"=http://"+m.peer)
	}
	return strings.Join(peers, ",")
}

// memberFlags name the chain through which etcd's members read.
func (s *state) memberFlags() []string {
	if !s.ChainMembers {
		return nil
	}
	flags := []string{"--chain-controllers=" + chainControllers()}
	if s.Options.Tags {
		flags = append(flags, "--chain-identity="+filepath.Join(inside, identitiesDir, string(security.Operator)))
	}
	return flags
}

// useMembers starts etcd's members again, one after the other, so that they read through the chain or no longer do.
func (s *state) useMembers(ctx context.Context, chain bool) error {
	s.ChainMembers = chain
	for _, m := range s.Options.etcdMembers() {
		if err := s.change(ctx, m.program(), func() {}); err != nil {
			return err
		}
	}
	if !chain {
		return nil
	}
	s.Options.Progress("waiting until etcd's members read through the chain")
	client, err := ControlClient(s.Options.Name)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return s.await(ctx, func(ctx context.Context) error {
		for _, url := range s.Options.EtcdURLs() {
			if err := readsThroughChain(ctx, client, url); err != nil {
				return err
			}
		}
		return nil
	})
}

// readsThroughChain returns an error unless a member says that it reads through the chain.
func readsThroughChain(ctx context.Context, client *http.Client, url string) error {
	page, err := readPage(ctx, client, url+"/metrics")
	if err == nil && !bytes.Contains(page, []byte("\n"+`netcraq_member_state{state="on"} 1`+"\n")) {
		err = fmt.Errorf("the member at %s does not read through the chain", url)
	}
	return err
}
