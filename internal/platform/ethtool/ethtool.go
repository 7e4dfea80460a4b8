// Package ethtool changes settings of network devices and reads the counters of their drivers, by the ioctl of
// ethtool(8). All functions act in the network namespace of the calling thread.
package ethtool

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// Numbers of linux/ethtool.h that x/sys lacks.
const (
	getStrings    = 0x1b
	getStats      = 0x1d
	getSetCount   = 0x37
	setTxChecksum = 0x17
	getFlags      = 0x25
	flagLRO       = 1 << 15
	statSet       = 1
	nameBytes     = 32
	maxStats      = 1 << 14
)

// SetGRO turns generic receive offload on or off.
func SetGRO(device string, on bool) error { return set(device, unix.ETHTOOL_SGRO, on) }

// SetTxChecksum says whether checksums of sent packets are left to the device.
func SetTxChecksum(device string, on bool) error { return set(device, setTxChecksum, on) }

// LRO reports whether large receive offload is on.
func LRO(device string) bool {
	value := struct{ command, data uint32 }{command: getFlags}
	return call(device, unsafe.Pointer(&value)) == nil && value.data&flagLRO != 0
}

// Stats returns the names and values of the counters of a device's driver; none if it has none.
func Stats(device string) (names []string, values []uint64) {
	var count struct {
		command, _ uint32
		mask       uint64
		n          uint32
		_          uint32
	}
	count.command, count.mask = getSetCount, 1<<statSet
	if call(device, unsafe.Pointer(&count)) != nil || count.n == 0 || count.n > maxStats {
		return nil, nil
	}
	texts := make([]uint32, 3+count.n*nameBytes/4)
	texts[0], texts[1], texts[2] = getStrings, statSet, count.n
	numbers := make([]uint64, 1+count.n)
	*(*[2]uint32)(unsafe.Pointer(&numbers[0])) = [2]uint32{getStats, count.n}
	if call(device, unsafe.Pointer(&texts[0])) != nil || call(device, unsafe.Pointer(&numbers[0])) != nil {
		return nil, nil
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&texts[3])), int(count.n)*nameBytes)
	for i := range int(count.n) {
		names = append(names, unix.ByteSliceToString(raw[i*nameBytes:(i+1)*nameBytes]))
	}
	return names, numbers[1:]
}

func set(device string, command uint32, on bool) error {
	value := struct{ command, data uint32 }{command: command}
	if on {
		value.data = 1
	}
	return call(device, unsafe.Pointer(&value))
}

// call passes data to the device's driver, which answers in its place.
func call(device string, data unsafe.Pointer) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // the kernel copies a whole struct ifreq
	}{data: data}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	return eintr.Retry(func() error {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
		if errno != 0 {
			return errno
		}
		return nil
	})
}
