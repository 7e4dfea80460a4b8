package client

import (
	"errors"
	"fmt"
	"net"
	"testing"
)

// BenchmarkEcho is the floor under BenchmarkGet: a datagram of the same size to a socket that sends it back.
func BenchmarkEcho(b *testing.B) {
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 66, 0, 5)})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, from, err := server.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			if _, err := server.WriteToUDPAddrPort(buffer[:n], from); err != nil {
				return
			}
		}
	}()
	conn, err := net.ListenUDP("udp4", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	to := server.LocalAddr().(*net.UDPAddr).AddrPort()
	buffer := make([]byte, 64)
	for b.Loop() {
		if _, err := conn.WriteToUDPAddrPort(buffer, to); err != nil {
			b.Fatal(err)
		}
		if _, _, err := conn.ReadFromUDPAddrPort(buffer); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	c := benchmarkClient(b)
	for b.Loop() {
		if _, err := c.Get(b.Context(), "k"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	c := benchmarkClient(b)
	value := make([]byte, 16)
	for b.Loop() {
		if _, err := c.Put(b.Context(), "k", value); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDo counts one operation of a batch.
func BenchmarkDo(b *testing.B) {
	c := benchmarkClient(b)
	for _, op := range []struct {
		name string
		make func(key string) Op
	}{
		{"get", func(key string) Op { return GetOp(key) }},
		{"put", func(key string) Op { return PutOp(key, []byte("0123456789abcdef")) }},
	} {
		b.Run(op.name, func(b *testing.B) {
			ops := make([]Op, 1000)
			for i := range ops {
				ops[i] = op.make(fmt.Sprint("key ", i))
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for _, o := range c.Do(b.Context(), ops) {
					if o.Err != nil && !errors.Is(o.Err, ErrNotFound) {
						b.Fatal(o.Err)
					}
				}
				n += len(ops)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

func benchmarkClient(b *testing.B) *Client {
	c := newClient(b, Options{Cluster: startCluster(b, 3, 1).cluster})
	if _, err := c.Put(b.Context(), "k", make([]byte, 16)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	return c
}
