package failover

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/control"
	"github.com/netcraq/netcraq/eval/baseline/fabric"
)

// harness is a chain of one of the protocols with its control plane, and a node in reserve.
type harness interface {
	network() *fabric.Fabric
	// writer and reader are clients of an object.
	writer(object int) (*probe, error)
	reader(object int) (*probe, error)
	// failover and recovery are the control plane's reactions to a failed node.
	failover(failed netip.Addr) error
	recover(ctx context.Context, failed, by netip.Addr) error
}

// chainAddrs are the chain's addresses, head first; the next one is the reserve's.
func chainAddrs() []netip.Addr {
	addrs := make([]netip.Addr, chainNodes)
	for i := range addrs {
		addrs[i] = fabric.NodeAddr(i)
	}
	return addrs
}

// reserve is the address of the node that takes the victim's place.
func reserve() netip.Addr { return fabric.NodeAddr(chainNodes) }

// agents send beats of the nodes to the controller until stop is called.
func agents(f *fabric.Fabric, controller netip.AddrPort) (stop func()) {
	ended := make(chan struct{})
	var done sync.WaitGroup
	for place := range chainNodes {
		at := fabric.NodeAddr(place)
		beat := baseline.Packet{
			From:    netip.AddrPortFrom(at, control.Port),
			To:      controller,
			Payload: control.BeatBytes(place),
		}
		done.Go(func() {
			ticks := time.NewTicker(control.Beat)
			defer ticks.Stop()
			for {
				select {
				case <-ended:
					return
				case <-ticks.C:
					if f.Alive(at) {
						f.Send(beat)
					}
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(ended)
		done.Wait()
	})
}

// gather makes the probes: writers of the first objects, readers of the next ones.
func gather(r harness, o *Options) (writers, readers []*probe, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(writers), closeAll(readers))
		}
	}()
	for i := range o.Writers {
		one, err := r.writer(i)
		if err != nil {
			return writers, readers, err
		}
		writers = append(writers, one)
	}
	for i := range o.Readers {
		one, err := r.reader(o.Writers + i)
		if err != nil {
			return writers, readers, err
		}
		readers = append(readers, one)
	}
	return writers, readers, nil
}
