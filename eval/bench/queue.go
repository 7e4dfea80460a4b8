package bench

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// EnlargeQueues gives the UDP sockets of a child process receive queues of 64 MiB, as the
// benchmarks' own servers have, and returns the number of sockets. It is for servers without an
// option for this. The default queue holds some fifty datagrams; it overflows quickly, and then the
// server waits for retries.
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

// enlarge works on a duplicate of a descriptor, which refers to the same socket. It skips other
// files.
func enlarge(process, number int) (bool, error) {
	fd, err := unix.PidfdGetfd(process, number, 0)
	if err != nil {
		return false, nil // closed in the meantime
	}
	defer unix.Close(fd)
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_DGRAM {
		return false, nil // not a UDP socket
	}
	return true, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, echoQueueBytes)
}
