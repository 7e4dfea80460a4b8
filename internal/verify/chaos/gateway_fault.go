package chaos

import (
	"context"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/verify/lab"
)

// gatewayRecipes are the kinds of faults of gateways. The longest pauses outlast a gateway's session or lock.
var gatewayRecipes = []recipe{
	{"gateway_kill", 8, 100 * time.Millisecond, 4 * time.Second, (*driver).gatewayKill},
	{"gateway_pause", 8, 50 * time.Millisecond, 8 * time.Second, (*driver).gatewayPause},
	{"partition_gateway", 6, 200 * time.Millisecond, 7 * time.Second, (*driver).partitionGateway},
}

// memberRecipes are the kinds of faults of the etcd behind gateways.
var memberRecipes = []recipe{
	{"etcd_kill", 6, 200 * time.Millisecond, 5 * time.Second, (*driver).etcdKill},
	{"etcd_pause", 5, 50 * time.Millisecond, 4 * time.Second, (*driver).etcdPause},
}

// GatewayKinds lists the kinds of faults of a trial of gateways in front of an etcd.
func GatewayKinds() []string { return append(MemoryKinds(), names(memberRecipes)...) }

// MemoryKinds lists the kinds of faults of a trial of gateways of a keyspace in memory.
func MemoryKinds() []string { return append(Kinds(), names(gatewayRecipes)...) }

// pickService returns one of the services without a fault, and the host of the controller beside it; nil if there is none.
func (d *driver) pickService(services []*lab.Service) (service *lab.Service, host string) {
	var free []int
	for i, s := range services {
		if !d.struck(s.Name) {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return nil, ""
	}
	i := free[d.rng.IntN(len(free))]
	return services[i], d.controllers[i]
}

func (d *driver) gatewayKill() *fault {
	s, _ := d.pickService(d.gateways)
	return killedService(s, "")
}

func (d *driver) gatewayPause() *fault {
	s, _ := d.pickService(d.gateways)
	return pausedService(s, "")
}

func (d *driver) etcdKill() *fault { return killedService(d.pickService(d.members)) }

func (d *driver) etcdPause() *fault { return pausedService(d.pickService(d.members)) }

// killedService makes a fault of a service. A majority of the members stays, as of the controllers: silent is the one beside it.
func killedService(s *lab.Service, silent string) *fault {
	if s == nil {
		return nil
	}
	return serviceFault(s, silent, s.Kill, s.Start)
}

func pausedService(s *lab.Service, silent string) *fault {
	if s == nil {
		return nil
	}
	return serviceFault(s, silent, s.Pause, s.Resume)
}

func serviceFault(s *lab.Service, silent string, begin, end func() error) *fault {
	return &fault{
		hosts: []string{s.Name}, silent: silent,
		begin: func(context.Context) error { return begin() },
		end:   func(context.Context) error { return end() },
	}
}

// partitionGateway separates a gateway from the other members of etcd, or from the chain. Clients reach it.
func (d *driver) partitionGateway() *fault {
	s, host := d.pickService(d.gateways)
	if s == nil || d.struck(host) {
		return nil
	}
	others := d.nodes
	if d.rng.IntN(2) == 0 {
		others = slices.DeleteFunc(slices.Clone(d.controllers), func(name string) bool { return name == host })
	}
	return d.parted(&fault{hosts: []string{s.Name, host}, silent: host, cut: &lab.Partition{
		Groups: [][]string{{host}, others}, OneWay: d.rng.IntN(4) == 0,
	}})
}

// superviseServices starts services again that ended without a fault, as an init system does.
func (d *driver) superviseServices() error {
	for _, s := range slices.Concat(d.members, d.gateways) {
		if d.struck(s.Name) || s.Alive() || time.Since(d.restarted[s.Name]) < restartAfter {
			continue
		}
		d.restarted[s.Name] = time.Now()
		d.restarts++
		d.setup.event("%s has ended: %s", s.Name, d.lab.LastWords(s.Name))
		if err := s.Start(); err != nil {
			return err
		}
	}
	return nil
}
