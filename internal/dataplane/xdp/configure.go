package xdp

import "github.com/netcraq/netcraq/internal/chain"

// ConfigureAll implements [dataplane.Plane].
func (p *Plane) ConfigureAll(configs map[uint16]chain.ShardConfig) error {
	if err := chain.ValidateAll(configs, len(p.shards.live)); err != nil {
		return err
	}
	p.configuring.Lock()
	defer p.configuring.Unlock()
	if p.unquiet { // a packet may still read what will be written
		if err := p.quiesce(); err != nil {
			return err
		}
	}
	served := p.shards.serves(configs)
	p.shards.prepare(configs)
	p.unquiet = true
	p.shards.commit(configs)
	if !served {
		return nil
	}
	return p.quiesce()
}
