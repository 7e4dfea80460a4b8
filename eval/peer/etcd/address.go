package etcd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
)

func hostPort(addr netip.Addr, port int) string {
	return net.JoinHostPort(addr.String(), strconv.Itoa(port))
}

// loopbackSites finds unused addresses of the loopback device (127/8). With an address of its own,
// a member needs no port that another process could take in the meantime.
func loopbackSites(count int) ([]Site, error) {
	const tries = 16
	var last error
	for range tries {
		part := [2]byte{byte(1 + rand.IntN(254)), byte(rand.IntN(256))}
		sites := make([]Site, count)
		var errs []error
		for i := range sites {
			sites[i].Addr = netip.AddrFrom4([4]byte{127, part[0], part[1], byte(i + 1)})
			errs = append(errs, free(sites[i].Addr))
		}
		if last = errors.Join(errs...); last == nil {
			return sites, nil
		}
	}
	return nil, fmt.Errorf("no free addresses of the loopback device for %d etcd members: %w", count, last)
}

// free reports whether a member can listen at an address.
func free(addr netip.Addr) error {
	for _, port := range []int{clientPort, peerPort} {
		l, err := net.Listen("tcp", hostPort(addr, port))
		if err != nil {
			return err
		}
		l.Close()
	}
	return nil
}
