package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// stableAddr is the address that netcraq-cni gives the chain in every pod.
var stableAddr = netip.AddrPortFrom(netip.MustParseAddr("169.254.77.1"), wire.Port)

const (
	// shards is the number of the manifests' controllers: their default.
	shards = 256
	// attempt is the time after which a message is sent again; limit bounds everything.
	attempt = time.Second
	limit   = 2 * time.Minute
)

// stableResult is what a pod sees at the stable address.
type stableResult struct {
	Key       string `json:"key"`
	Version   uint64 `json:"version"`
	WrittenBy string `json:"write_answered_by"`
	ReadBy    string `json:"read_answered_by"`
	Dirty     int    `json:"reads_answered_elsewhere"` // before the object was clean here
}

// stable writes a key, and reads it until the node of this machine has answered, by messages to the stable address
// alone. A client needs the map of the cluster; here the answers tell the epoch, and whether a key is of this node.
func stable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	p := &probe{conn: conn, session: rand.Uint64() | 1}
	name, _ := os.Hostname()
	for i := 0; ; i++ {
		key := fmt.Sprintf("%s/%d", name, i)
		r, err := p.try(ctx, key)
		if errors.Is(err, errNotMine) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return show(r)
	}
}

// probe sends messages to the stable address.
type probe struct {
	conn    *net.UDPConn
	session uint64
	request uint64
	seq     uint64
}

var errNotMine = errors.New("the chain of this key is on other machines")

func (p *probe) try(ctx context.Context, name string) (*stableResult, error) {
	key, err := wire.HashKey([]byte(name))
	if err != nil {
		return nil, err
	}
	base := wire.Message{Key: key, Shard: key.Shard(shards)}
	read := base
	read.Op = wire.OpRead
	answer, local, err := p.call(ctx, read, wire.StatusNotFound)
	if err != nil {
		return nil, err
	}
	p.seq++
	put := base
	put.Op, put.Epoch, put.Session, put.Seq, put.Value = wire.OpPut, answer.Epoch, p.session, p.seq, []byte(name)
	written, by, err := p.call(ctx, put, wire.StatusOk)
	if err != nil {
		return nil, err
	}
	r := &stableResult{Key: name, Version: written.Version, WrittenBy: by.String()}
	for {
		answer, from, err := p.call(ctx, read, wire.StatusOk)
		if err != nil {
			return nil, err
		}
		if answer.Version != written.Version || !bytes.Equal(answer.Value, put.Value) {
			return nil, fmt.Errorf("wrote version %d, and read version %d, %q", written.Version, answer.Version, answer.Value)
		}
		if from == local {
			r.ReadBy = from.String()
			return r, nil
		}
		r.Dirty++
	}
}

// call sends a message until it is answered with the status. The sender of the answer is the node that answered.
func (p *probe) call(ctx context.Context, m wire.Message, want wire.Status) (*wire.Message, netip.AddrPort, error) {
	buffer := make([]byte, wire.MaxDatagramBytes)
	for ctx.Err() == nil {
		p.request++
		m.Request = p.request
		if _, err := p.conn.WriteToUDPAddrPort(m.Append(nil), stableAddr); err != nil {
			return nil, netip.AddrPort{}, err
		}
		if err := p.conn.SetReadDeadline(time.Now().Add(attempt)); err != nil {
			return nil, netip.AddrPort{}, err
		}
		n, from, err := p.conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			continue // no answer in time: again
		}
		answer := new(wire.Message)
		if wire.DecodeReply(buffer[:n], answer) != nil || answer.Request != m.Request {
			continue
		}
		switch answer.Status() {
		case want:
			return answer, from, nil
		case wire.StatusBusy:
			continue
		case wire.StatusNotMine:
			return nil, from, errNotMine
		}
		return nil, from, fmt.Errorf("the answer is %v instead of %v", answer.Status(), want)
	}
	return nil, netip.AddrPort{}, ctx.Err()
}
