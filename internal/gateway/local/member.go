package local

import (
	"context"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// Member is a member of an etcd cluster, for trials in which members fail.
type Member struct {
	Name, Dir    string
	Client, Peer string // URLs at which it serves clients and other members
	Initial      string // all members, as NAME=PEER-URL,...
}

// Run serves until ctx ends. A member that is started again with the same directory goes on with its data.
func (m *Member) Run(ctx context.Context) error {
	c := embed.NewConfig()
	c.Name, c.Dir, c.LogLevel, c.LogOutputs, c.InitialCluster = m.Name, m.Dir, "error", []string{"stderr"}, m.Initial
	c.UnsafeNoFsync = true // the kill of a process loses nothing that it has written
	for _, s := range []struct {
		text string
		urls []*[]url.URL
	}{
		{m.Client, []*[]url.URL{&c.ListenClientUrls, &c.AdvertiseClientUrls}},
		{m.Peer, []*[]url.URL{&c.ListenPeerUrls, &c.AdvertisePeerUrls}},
	} {
		u, err := url.Parse(s.text)
		if err != nil {
			return fmt.Errorf("a member of etcd: %w", err)
		}
		for _, list := range s.urls {
			*list = []url.URL{*u}
		}
	}
	e, err := embed.StartEtcd(c)
	if err != nil {
		return fmt.Errorf("a member of etcd in %s: %w", m.Dir, err)
	}
	defer e.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.Err():
		return err
	}
}
