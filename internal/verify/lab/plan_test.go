package lab

import (
	"fmt"
	"strings"
	"testing"
)

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }

func TestBadOptions(t *testing.T) {
	good := Options{Name: "lab", Topology: Line, Nodes: 3, Clients: 1}
	for what, spoil := range map[string]func(*Options){
		"topology":  func(o *Options) { o.Topology = "ring" },
		"nodes":     func(o *Options) { o.Nodes = 0 },
		"a chain":   func(o *Options) { o.Nodes = 9 },
		"clients":   func(o *Options) { o.Clients = -1 },
		"client-at": func(o *Options) { o.ClientAt = "n4" },
		"name":      func(o *Options) { o.Name = "a-b" },
	} {
		o := good
		spoil(&o)
		if err := o.Validate(); err == nil || !contains(err, what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func TestRoutes(t *testing.T) {
	for _, test := range []struct {
		options  Options
		down     []string
		from, to string
		want     string
	}{
		{Options{Topology: Line, Nodes: 4, Clients: 1}, nil, "c1", "n4", "[n1]"},
		{Options{Topology: Line, Nodes: 4, Clients: 1}, nil, "n2", "n4", "[n3]"},
		{Options{Topology: Line, Nodes: 4, Clients: 1}, []string{"n2-n3"}, "n1", "n4", "[]"},
		{Options{Topology: Line, Nodes: 4, Clients: 1, ClientAt: "n3"}, nil, "c1", "n1", "[n3]"},
		{Options{Topology: LeafSpine, Nodes: 3, Clients: 2}, nil, "n1", "n3", "[s1 s2]"},
		{Options{Topology: LeafSpine, Nodes: 3, Clients: 2}, nil, "n1", "c2", "[s1 s2]"},
		{Options{Topology: LeafSpine, Nodes: 3, Clients: 2}, nil, "s1", "c2", "[n2]"},
		{Options{Topology: LeafSpine, Nodes: 3, Clients: 2}, []string{"n3-s1"}, "n1", "n3", "[s2]"},
		{Options{Topology: LeafSpine, Nodes: 3, Clients: 2}, nil, "s1", "s2", "[n1 n2 n3]"},
		{Options{Topology: Fabric, Nodes: 3, Clients: 2, Controllers: 3}, nil, "c1", "ctl3", "[s1 s2]"},
		{Options{Topology: Fabric, Nodes: 3, Clients: 2, Controllers: 3}, []string{"ctl3-s1"}, "n1", "ctl3", "[s2]"},
		{Options{Topology: Line, Nodes: 3, Clients: 2, Controllers: 3}, nil, "n3", "ctl3", "[n2]"},
	} {
		test.options.Name = "lab"
		p, err := NewPlan(test.options, firstOctet)
		if err != nil {
			t.Fatal(err)
		}
		down := map[Link]bool{}
		for _, name := range test.down {
			link, ok := p.Link(name)
			if !ok {
				t.Fatalf("no link %s", name)
			}
			down[link] = true
		}
		got := "[]"
		for _, r := range p.routes(test.from, down) {
			if r.to.Name == test.to {
				got = fmt.Sprint(r.hops)
			}
		}
		if got != test.want {
			t.Errorf("%s %v: from %s to %s by %s, want %s", test.options.Topology, test.down, test.from, test.to, got, test.want)
		}
	}
}

func TestRolesFollowTheChain(t *testing.T) {
	for nodes, want := range map[int]string{1: "[head and tail]", 2: "[head tail]", 4: "[head replica replica tail]"} {
		o := Options{Name: "lab", Topology: Line, Nodes: nodes, Shards: 1}
		l, err := newLab(&state{Options: o, Octet: firstOctet})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range l.Plan.With(RoleNode) {
			got = append(got, l.ChainRole(h.Name))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%d nodes: %v", nodes, got)
		}
	}
}
