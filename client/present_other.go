//go:build !linux

package client

import (
	"net"

	"golang.org/x/net/ipv4"
)

const dontWait = 0

func presentOf(*net.UDPConn) *ipv4.PacketConn { return nil }
