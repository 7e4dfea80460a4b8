package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/wire"
)

const dissector = "../../../clients/wireshark/netcraq.lua"

// TestDissector has tshark dissect messages of all kinds, in bundles and with tags too, and compares each field with
// what was encoded.
func TestDissector(t *testing.T) {
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is not installed: apt-get install --no-install-recommends tshark")
	}
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	var datagrams [][]byte
	var want []map[string]string
	for _, op := range wire.Ops {
		if op == wire.OpBundle || op == wire.OpHeartbeat {
			continue
		}
		for _, tagged := range []bool{false, true} {
			m := random(r, op)
			d, fields := m.Append(nil), expected(&m)
			if tagged {
				var err error
				if d, err = keyring().Append(d, wire.Ends{From: address(1), To: address(2)}); err != nil {
					t.Fatal(err)
				}
				fields["netcraq.trailer.generation"] = "9"
				fields["netcraq.version"] = strconv.Itoa(wire.TaggedMark | wire.WireVersion)
			}
			datagrams, want = append(datagrams, d), append(want, fields)
		}
	}
	first, second := random(r, wire.OpRead), random(r, wire.OpReply)
	second.Value = second.Value[:8]
	b := wire.NewBundle(make([]byte, wire.MaxDatagramBytes), 2, wire.SlotFor(wire.VersionBytes+8))
	if !b.Put(0, &first) || !b.Put(1, &second) {
		t.Fatal("two messages do not fit a bundle")
	}
	both := map[string]string{"netcraq.bundle.count": "2"}
	of := expected(&second)
	for name, value := range expected(&first) {
		both[name] = value + "," + of[name]
	}
	for _, name := range []string{"netcraq.magic", "netcraq.version"} {
		delete(both, name)
	}
	datagrams, want = append(datagrams, b), append(want, both)
	h := wire.Heartbeat{
		Answer: true, Granter: 2, Majority: 3, Node: 4, SetID: 5, Incarnation: 1 << 60, Request: 7, Stamp: 8, Lease: 9,
	}
	datagrams, want = append(datagrams, h.Append(nil, new(wire.Secret))), append(want, map[string]string{
		"netcraq.heartbeat.op": "25", "netcraq.heartbeat.kind": "1", "netcraq.heartbeat.granter": "2",
		"netcraq.heartbeat.node": "4", "netcraq.heartbeat.incarnation": strconv.Itoa(1 << 60), "netcraq.heartbeat.lease": "9",
	})
	for i, fields := range want {
		compare(t, datagrams[i], fields)
	}
}

// random is a message with all fields of its op.
func random(r *rand.Rand, op wire.Op) wire.Message {
	m := wire.Message{
		Op: op, Hops: uint8(r.UintN(16)), Shard: uint16(r.Uint32()), Epoch: r.Uint32(), Request: r.Uint64(),
		Key: wire.Key{Hi: r.Uint64(), Lo: r.Uint64()}, Version: r.Uint64(), Session: r.Uint64(), Seq: r.Uint64(),
		Operand: r.Uint64(), ClientOp: wire.OpPut,
		Client: netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 1, 15: 9}), 4000),
	}
	switch op {
	case wire.OpPut, wire.OpCAS, wire.OpForward, wire.OpUpdate, wire.OpRelay:
		m.Value = binary.BigEndian.AppendUint64(nil, r.Uint64())
	case wire.OpReply:
		m.Value, m.Detail, m.Flags = make([]byte, 1+r.UintN(100)+8), uint16(wire.StatusCASFailed), wire.FlagTail
	}
	return m
}

// expected are fields of a message, as tshark prints them.
func expected(m *wire.Message) map[string]string {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	fields := map[string]string{
		"netcraq.magic": number(wire.Magic), "netcraq.version": number(wire.WireVersion),
		"netcraq.op": number(uint64(m.Op)), "netcraq.hops": number(uint64(m.Hops)),
		"netcraq.shard": number(uint64(m.Shard)), "netcraq.epoch": number(uint64(m.Epoch)),
		"netcraq.request": number(m.Request), "netcraq.key_hi": number(m.Key.Hi), "netcraq.key_lo": number(m.Key.Lo),
	}
	switch m.Op {
	case wire.OpRead:
	case wire.OpReply, wire.OpAck, wire.OpProbe:
		fields["netcraq.version.version"] = number(m.Version)
	default:
		fields["netcraq.chain.session"], fields["netcraq.chain.seq"] = number(m.Session), number(m.Seq)
		fields["netcraq.chain.operand"] = number(m.Operand)
		fields["netcraq.chain.client_port"] = number(uint64(m.Client.Port()))
	}
	if m.Op == wire.OpReply {
		fields["netcraq.status"], fields["netcraq.flag.tail"] = number(uint64(m.Detail)), "1"
	}
	if len(m.Value) > 0 {
		fields["netcraq.value"] = fmt.Sprintf("%x", m.Value)
	}
	return fields
}

func keyring() *wire.Keyring {
	s := new(wire.Secret)
	return &wire.Keyring{Sign: 9, Keys: []wire.Keys{{Generation: 9, Read: s, Write: s, Chain: s}}}
}

func address(n byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), wire.Port)
}

// compare has tshark print fields of a datagram.
func compare(t *testing.T, datagram []byte, want map[string]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "one.pcap")
	if err := os.WriteFile(file, capture(datagram), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-n", "-r", file, "-X", "lua_script:" + dissector, "-T", "fields", "-E", "aggregator=,"}
	var names []string
	for name := range want {
		names, args = append(names, name), append(args, "-e", name)
	}
	var said bytes.Buffer
	command := exec.Command("tshark", args...)
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\t")
	if len(got) != len(names) {
		t.Fatalf("%d fields of %d: %q\n%s", len(got), len(names), got, &said)
	}
	for i, name := range names {
		if value := strings.Trim(want[name], ","); got[i] != value {
			t.Errorf("op %d, %s: %q, want %q", datagram[3], name, got[i], value)
		}
	}
}

// capture is a file of tcpdump's with one datagram to a node's port, over IPv4 without a link layer.
func capture(datagram []byte) []byte {
	const linkRaw, udp = 101, 17
	var b []byte
	little := binary.LittleEndian
	b = little.AppendUint32(b, 0xa1b2c3d4)
	b = little.AppendUint16(little.AppendUint16(b, 2), 4)
	b = append(b, make([]byte, 8)...)
	b = little.AppendUint32(little.AppendUint32(b, 65535), linkRaw)
	n := 28 + len(datagram)
	b = append(b, make([]byte, 8)...)
	b = little.AppendUint32(little.AppendUint32(b, uint32(n)), uint32(n))
	big := binary.BigEndian
	b = append(b, 0x45, 0)
	b = big.AppendUint16(b, uint16(n))
	b = append(b, 0, 0, 0, 0, 64, udp, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2)
	b = big.AppendUint16(big.AppendUint16(b, 40000), wire.Port)
	b = big.AppendUint16(big.AppendUint16(b, uint16(8+len(datagram))), 0)
	return append(b, datagram...)
}
