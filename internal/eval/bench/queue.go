package bench

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// EnlargeQueues gives the UDP sockets of a process, which must be a child of this one, receive queues of 64 MiB, as the benchmarks' own
// servers have them, and returns how many there were. For servers that have no option for it: what the default holds, some
// fifty datagrams, is soon lost, and the server waits for the next attempt.
func EnlargeQueues(pid int) (sockets int, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(process)
	for _, e := range entries {
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			return sockets, err
		}
		enlarged, err := enlarge(process, number)
		if err != nil {
			return sockets, fmt.Errorf("receive queue of process %d: %w", pid, err)
		}
		if enlarged {
			sockets++
		}
	}
	return sockets, nil
}

// enlarge works on a copy of a descriptor, which stands for the same socket. Other files are left alone.
func enlarge(process, number int) (bool, error) {
	fd, err := unix.PidfdGetfd(process, number, 0)
	if err != nil {
		return false, nil // closed meanwhile
	}
	defer unix.Close(fd)
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_DGRAM {
		return false, nil // no socket, or none of UDP
	}
	return true, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, echoQueueBytes)
}
