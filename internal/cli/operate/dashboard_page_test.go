//go:build browser

package operate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/gateway/placement"
)

// hostile is the name of a key that would run a script and turn the text around it, if the page let it.
const hostile = "<img src=x onerror=\"window.hit=1\">\u202e</script><script>window.hit=1</script>"

// TestDashboardPage drives the page of a live cluster in a browser: a failure, its repair, a traced read and write, the keyboard,
// and hostile names. $NETCRAQ_PICTURES is a directory for pictures of it.
func TestDashboardPage(t *testing.T) {
	pictures := os.Getenv("NETCRAQ_PICTURES")
	gateway := httptest.NewServer(http.HandlerFunc(someKeys))
	defer gateway.Close()
	m := clitest.StartManaged(t, "127.3.21.1", "--shards", "64", "--form-with", "3")
	for i := range 3 {
		m.StartNode(fmt.Sprintf("n%d", i+1), fmt.Sprintf("127.3.21.%d:4411", 11+i))
	}
	m.Await("the first chains", clitest.FullyReplicated(3))
	c := m.Client()
	for i := range 2000 {
		if _, err := c.Put(t.Context(), fmt.Sprint("key", i), []byte(strings.Repeat("v", 400))); err != nil {
			t.Fatal(err)
		}
	}
	stop := load(t, c)
	defer stop()
	const at = "127.3.21.1:4420"
	m.Run("dashboard", "dashboard", "--controllers", m.Controller, "--gateways", gateway.URL, "--listen", at, "--trace-writes")

	p := openPage(t, 1280, 1360)
	shoot := func(name string) {
		if pictures == "" {
			return
		}
		for _, scheme := range []string{"light", "dark"} {
			p.dark(scheme == "dark")
			p.picture(filepath.Join(pictures, name+"-"+scheme+".png"))
		}
	}
	p.dark(false)
	begun, answers := time.Now(), false
	for !answers && time.Since(begun) < clitest.Formed { // the server may not listen yet
		p.visit("http://" + at + "/")
		answers = eval[bool](p, "document.getElementById('chains') !== null")
	}
	p.await("document.querySelectorAll('#chains svg').length > 0 && document.querySelectorAll('#nodes tr').length === 3")
	p.await("document.querySelector('#health').textContent === 'all shards whole'")
	p.await("document.querySelectorAll('#keys tr').length === 2 && document.querySelectorAll('#hot tr').length > 0")
	namesAreText(t, p)

	eval[any](p, "document.querySelector('#chains li').focus(), null")
	p.press("ArrowDown")
	p.press("Enter")
	p.await("document.activeElement === document.querySelectorAll('#chains li')[1] && " +
		"document.activeElement.getAttribute('aria-expanded') === 'true'")
	p.press("Enter")
	traceRead(p, "key7")
	shoot("whole")
	traceWrite(p)
	shoot("write")

	clitest.Kill(m.Nodes["n2"])
	p.await("[...document.querySelectorAll('#events [data-kind=failure]')].some((e) => e.textContent.includes('node n2')) && " +
		"document.querySelector('#health').textContent === '64 shards short of a member' && " +
		"document.querySelectorAll('#chains .missing').length > 0")
	shoot("failure")
	m.StartNode("n2", "127.3.21.12:4411")
	// At once: heads that are given back soon fill the list of events.
	p.await("document.querySelector('#health').textContent === 'all shards whole' && " +
		"document.querySelectorAll('#chains .missing').length === 0 && " +
		"[...document.querySelectorAll('#events [data-kind=repair]')].some((e) => e.textContent.includes('are whole'))")
	shoot("repaired")
}

// namesAreText checks that the hostile name of a key is shown, and is nothing else in the page.
func namesAreText(t *testing.T, p *page) {
	t.Helper()
	if eval[bool](p, "window.hit !== undefined || document.querySelector('img') !== null") {
		t.Error("the name of a key became part of the page")
	}
	if shown := eval[string](p, "document.querySelectorAll('#keys th')[1].textContent"); !strings.Contains(shown, "<img") ||
		!strings.Contains(shown, `\u{202e}`) || strings.Contains(shown, "\u202e") {
		t.Errorf("the hostile name is shown as %q", shown)
	}
}

// traceRead follows a read of a key through a chain of three.
func traceRead(p *page, key string) {
	eval[any](p, "document.getElementById('tracekey').focus(), null")
	p.write(key)
	eval[any](p, "document.getElementById('trace').requestSubmit(), null")
	p.await("document.querySelectorAll('#path svg .hop').length >= 3 && document.getElementById('pathtext').textContent.includes('2 hops')")
}

// traceWrite follows a write in the shard of the last trace.
func traceWrite(p *page) {
	eval[any](p, "document.getElementById('traceop').value = 'POST', document.getElementById('traceop').dispatchEvent(new Event('change')), "+
		"document.getElementById('trace').requestSubmit(), null")
	p.await("document.getElementById('pathtext').textContent.includes('4 hops') && document.getElementById('path').textContent.includes('committed')")
}

// load reads some keys again and again.
func load(t *testing.T, c *client.Client) (stop func()) {
	ended, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		every := time.NewTicker(time.Millisecond)
		defer every.Stop()
		for i := 0; ; i++ {
			select {
			case <-ended:
				return
			case <-every.C:
			}
			_, _ = c.Get(t.Context(), fmt.Sprint("key", i%7*i%5)) // a failure may be under way
			if i%20 == 0 {
				_, _ = c.Put(t.Context(), fmt.Sprint("key", i%400), []byte("w"))
			}
		}
	}()
	return func() { close(ended); <-over }
}

// someKeys answers as a gateway does.
func someKeys(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode([]placement.Explanation{ // the client checks it
		{Key: "config/routes", Placed: true, Counted: true, Reads: 9e4, ReadRate: 1500.2, WriteRate: 0.4, HitShare: 0.97, Bytes: 812,
			Reason: "it brings enough for each byte"},
		{Key: hostile, Counted: true, Reads: 3, ReadRate: 0.1, Bytes: 9, Reason: "others bring more for each byte"}})
}
