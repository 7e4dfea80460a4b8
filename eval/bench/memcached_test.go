package bench

import (
	"net/netip"
	"os/exec"
	"strconv"
	"testing"
)

// TestMemcachedAnswersTheGenerator expects the stored value in every answer.
func TestMemcachedAnswersTheGenerator(t *testing.T) {
	needRoot(t)
	if _, err := exec.LookPath("memcached"); err != nil {
		t.Skip("memcached is not installed: scripts/peers.sh memcached")
	}
	r, err := Memcached(t.Context(), MemcachedOptions{
		Windows: Windows{Seconds: 0.2, Rounds: 2}, Keys: 100, ValueBytes: 21,
		Server: func(addr netip.AddrPort) []string {
			port := strconv.Itoa(int(addr.Port()))
			return []string{"memcached", "-u", "nobody", "-l", addr.Addr().String(), "-p", port, "-U", port, "-t", "1"}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.ReadsPerS <= 0 || r.Sent == 0 || r.Wrong > 0 || float64(r.Lost) > lossLimit*float64(r.Sent) {
		t.Errorf("%+v", r)
	}
	t.Logf("%+v", r)
}
