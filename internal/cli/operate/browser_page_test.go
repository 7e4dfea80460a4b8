//go:build browser

package operate

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// chromium is the program that is driven, over its debugging pipe.
const chromium = "chromium"

// answerWithin is how long the browser may take for one command. Only a browser that hangs takes longer.
const answerWithin = 4 * time.Minute

// page is one page in a browser of its own.
type page struct {
	t       *testing.T
	to      io.Writer
	answers chan message
	session string
	id      int
}

// message is a command, or the answer to one.
type message struct {
	ID      int             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// openPage starts a browser, which ends with the test, and returns its page of this size.
func openPage(t *testing.T, width, height int) *page {
	t.Helper()
	commands, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, events, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--no-proxy-server",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", fmt.Sprintf("--window-size=%d,%d", width, height), "about:blank")
	cmd.ExtraFiles = []*os.File{commands, events}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: install %s, or run the tests without it", err, chromium)
	}
	commands.Close()
	events.Close()
	p := &page{t: t, to: to, answers: make(chan message, 1)}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its helpers too
		_ = cmd.Wait()                                      // it reports the kill
		to.Close()
		from.Close()
	})
	go p.receive(from)
	var targets struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	p.call("Target.getTargets", nil, &targets)
	for _, target := range targets.TargetInfos {
		if target.Type == "page" {
			var attached struct{ SessionID string }
			p.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
			p.session = attached.SessionID
		}
	}
	if p.session == "" {
		t.Fatal("the browser has no page")
	}
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1,
		"mobile": false}, nil)
	return p
}

// receive passes on answers; events are dropped.
func (p *page) receive(from io.Reader) {
	for in := bufio.NewReader(from); ; {
		text, err := in.ReadBytes(0)
		if err != nil {
			close(p.answers)
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) == nil && m.ID != 0 {
			p.answers <- m
		}
	}
}

func (p *page) call(method string, params, result any) {
	p.t.Helper()
	p.id++
	text, err := json.Marshal(message{ID: p.id, Method: method, Session: p.session, Params: params})
	if err == nil {
		_, err = p.to.Write(append(text, 0))
	}
	if err != nil {
		p.t.Fatal(err)
	}
	select {
	case m, ok := <-p.answers:
		switch {
		case !ok:
			err = errors.New("the browser ended")
		case len(m.Error) > 0:
			err = errors.New(string(m.Error))
		case m.ID != p.id:
			err = fmt.Errorf("answer %d came for command %d", m.ID, p.id)
		case result != nil:
			err = json.Unmarshal(m.Result, result)
		}
	case <-time.After(answerWithin):
		err = fmt.Errorf("no answer within %v", answerWithin)
	}
	if err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
}

// visit loads a page.
func (p *page) visit(url string) {
	p.t.Helper()
	p.call("Page.navigate", map[string]any{"url": url}, nil)
}

// dark chooses the colour scheme.
func (p *page) dark(dark bool) {
	p.t.Helper()
	value := "light"
	if dark {
		value = "dark"
	}
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme",
		"value": value}, {"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
}

// press presses a key, such as ArrowDown.
func (p *page) press(key string) {
	p.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		p.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key}, nil)
	}
}

// write types text where the focus is.
func (p *page) write(text string) {
	p.t.Helper()
	p.call("Input.insertText", map[string]any{"text": text}, nil)
}

// eval evaluates an expression and decodes its value.
func eval[T any](p *page, expression string) (value T) {
	p.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	p.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &out)
	if len(out.ExceptionDetails) > 0 {
		p.t.Fatalf("%s: %s", expression, out.ExceptionDetails)
	}
	if err := json.Unmarshal(out.Result.Value, &value); err != nil {
		p.t.Fatalf("%s: %v: %s", expression, err, out.Result.Value)
	}
	return value
}

// await waits until an expression holds.
func (p *page) await(expression string) {
	p.t.Helper()
	met := eval[bool](p, fmt.Sprintf(`(async () => {
		for (const end = Date.now() + %d; Date.now() < end; await new Promise((r) => setTimeout(r, 20))) if (%s) return true;
		return false;
	})()`, answerWithin.Milliseconds()/2, expression))
	if !met {
		p.t.Fatalf("%s does not hold; the page: %s", expression, eval[string](p, "document.body.innerText"))
	}
}

// picture writes a picture of the page, in PNG.
func (p *page) picture(path string) {
	p.t.Helper()
	var shot struct{ Data string }
	p.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(path, picture, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
