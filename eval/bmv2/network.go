package bmv2

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// openInterface opens a packet socket on a network interface of the calling thread's namespace.
func openInterface(name string) (*os.File, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: link.Index}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("interface %s: %w", name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

func networkOrder(v uint16) uint16 { return v<<8 | v>>8 }

// receive hands the frames of a port on until the file is closed.
func receive(port int, from *os.File, to chan<- frame) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if errors.Is(err, unix.ENETDOWN) {
			continue
		}
		if err != nil {
			return
		}
		to <- frame{port, append([]byte(nil), buffer[:n]...)}
	}
}
