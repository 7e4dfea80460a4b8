package testserver

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
)

// fastReads is in a member's log when it stops.
var fastReads = regexp.MustCompile(`"fast-reads":(\d+)`)

// startMember starts $NETCRAQ as an etcd of one member that reads through the chain of the cluster file $NETCRAQ_CHAIN,
// until the test ends, and returns its URL. It gets the settings of the test's etcd, which is not used.
func startMember(t testing.TB, program string, cfg *embed.Config) string {
	ports, err := getAvailablePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	client, peer := fmt.Sprintf("http://localhost:%d", ports[0]), fmt.Sprintf("http://localhost:%d", ports[1])
	command := exec.Command(program, "etcd", "--name=m1", "--data-dir="+t.TempDir(), "--unsafe-no-fsync",
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=m1="+peer, "--initial-cluster-token="+cfg.Dir,
		"--watch-progress-notify-interval="+cfg.WatchProgressNotifyInterval.String(),
		"--chain-cluster="+os.Getenv("NETCRAQ_CHAIN"), "--chain-pins=")
	log := new(bytes.Buffer)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = command.Wait()                          // its error names the signal
		found := fastReads.FindSubmatch(log.Bytes())
		if found == nil || t.Failed() {
			t.Errorf("member: %s", log)
			return
		}
		t.Logf("member: %s reads from the chain", found[1])
	})
	awaitPage(t, client+"/metrics", func(_ int, text []byte) bool {
		return bytes.Contains(text, []byte(`netcraq_member_state{state="on"} 1`))
	})
	return client
}
