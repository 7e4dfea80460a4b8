package fabric

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
	"github.com/netcraq/netcraq/internal/platform/thread"
)

// deviceName is the TUN device's, which is alone in its namespace.
const deviceName = "fabric"

// Addresses: all hosts share one, and everything else of the network is behind the device.
var (
	hostAddr = netip.AddrFrom4([4]byte{10, 89, 255, 254})
	netMask  = [4]byte{255, 255, 0, 0}
)

// NodeAddr is the address for the node of a place.
func NodeAddr(place int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 89, byte(place >> 8), byte(place + 1)})
}

// device is a TUN device in a namespace of its own, and a thread that stays there.
type device struct {
	file   *os.File
	thread *thread.Thread
}

func openDevice() (*device, error) {
	d := new(device)
	var err error
	if d.thread, err = thread.Start(d.open); err != nil {
		return nil, fmt.Errorf("make a TUN device: %w", err)
	}
	return d, nil
}

// open moves the calling thread into a new namespace and makes the device there.
func (d *device) open() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace (are you root?): %w", err)
	}
	fd, err := eintr.Value(func() (int, error) {
		return unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return fmt.Errorf("/dev/net/tun: %w", err)
	}
	r, err := unix.NewIfreq(deviceName)
	if err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, r); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	if err := configure(); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	d.file = os.NewFile(uintptr(fd), deviceName)
	return nil
}

// configure gives the device its address and brings it up.
func configure() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq(deviceName)
	if err != nil {
		return err
	}
	four := hostAddr.As4()
	if err := errors.Join(r.SetInet4Addr(four[:]), unix.IoctlIfreq(s, unix.SIOCSIFADDR, r)); err != nil {
		return err
	}
	if err := errors.Join(r.SetInet4Addr(netMask[:]), unix.IoctlIfreq(s, unix.SIOCSIFNETMASK, r)); err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

// listen makes a host's socket.
func (d *device) listen() (conn *net.UDPConn, err error) {
	err = d.thread.Do(func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: hostAddr.AsSlice()})
		return err
	})
	return conn, err
}

func (d *device) close() error {
	d.thread.Close()
	return d.file.Close()
}
