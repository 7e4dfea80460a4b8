package agent

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/wire"
)

const (
	// probes READs are sent to a data plane, each given probeWithin; where nothing listens, the kernel refuses at once.
	probes      = 4
	probeWithin = 50 * time.Millisecond
)

// serves reports whether a data plane answers for a shard at addr, independent of its agent. One that is not configured
// does not: its node has just begun to start.
func serves(addr netip.AddrPort, shard uint16) bool {
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return false
	}
	defer conn.Close()
	// A relaxed read is answered without the rest of the chain, and in any epoch. No key has this hash.
	read := wire.Message{Op: wire.OpRead, Flags: wire.FlagAny, Shard: shard, Key: wire.Key{Lo: uint64(shard)}}
	reply := make([]byte, wire.MaxMessageBytes)
	for read.Request = 1; read.Request <= probes; read.Request++ {
		if _, err := conn.Write(read.Append(nil)); err != nil {
			return false
		}
		if err := conn.SetReadDeadline(time.Now().Add(probeWithin)); err != nil {
			return false
		}
		n, err := conn.Read(reply)
		var m wire.Message
		switch {
		case err == nil && wire.DecodeReply(reply[:n], &m) == nil && m.Key == read.Key:
			return m.Status() != wire.StatusNotMine
		case errors.Is(err, unix.ECONNREFUSED):
			return false
		}
	}
	return false
}
