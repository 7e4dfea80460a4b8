package client

import (
	"encoding/binary"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cutsTrains reports whether the kernel knows UDP_SEGMENT. One that does not would ignore it and send one long datagram.
func cutsTrains(conn *net.UDPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	var failed error
	err = raw.Control(func(fd uintptr) { _, failed = unix.GetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT) })
	return err == nil && failed == nil
}

// segmentsOf returns the control message that has the kernel cut a message into datagrams of that length.
func segmentsOf(bytes int) []byte {
	control := make([]byte, unix.CmsgSpace(2))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	header.Level, header.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	header.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(control[unix.CmsgLen(0):], uint16(bytes))
	return control
}
