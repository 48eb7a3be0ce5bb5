package e2e

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// chromium is a real browser, driven over the debugging pipe: no port is open that a page could reach.
type chromium struct {
	t       testing.TB
	cmd     *exec.Cmd
	to      *os.File
	mu      sync.Mutex // guards what follows
	next    int
	wait    map[int]chan reply
	workers []string // what is known of service workers
	said    []string // what pages wrote to their consoles, and what was refused there
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// newChromium starts a browser with a profile of its own.
func newChromium(t testing.TB, more ...string) *chromium {
	t.Helper()
	return chromiumIn(t, nil, more...)
}

// chromiumIn starts a browser by what runs a command in its network; none: this one.
func chromiumIn(t testing.TB, in []string, more ...string) *chromium {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is missing: scripts/setup.sh test installs it")
	}
	toRead, toWrite, err := os.Pipe()
	must(t, err)
	fromRead, fromWrite, err := os.Pipe()
	must(t, err)
	c := &chromium{t: t, to: toWrite, wait: map[int]chan reply{}}
	profile := filepath.Join(t.TempDir(), "profile")
	argv := slices.Concat(in, []string{program}, []string{
		"--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps", "--no-proxy-server",
		"--force-color-profile=srgb", "--hide-scrollbars", "--user-data-dir=" + profile,
	}, more, []string{"about:blank"})
	c.cmd = exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	c.cmd.ExtraFiles = []*os.File{toRead, fromWrite}
	c.cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its children end with it
	must(t, c.cmd.Start())
	_, _ = toRead.Close(), fromWrite.Close()
	over := make(chan struct{})
	go func() {
		c.read(fromRead)
		close(over)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		_ = c.cmd.Wait()
		_ = c.to.Close()
		_ = fromRead.Close()
		<-over
	})
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *chromium) read(from *os.File) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		raw, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if json.Unmarshal(raw[:len(raw)-1], &m) != nil {
			continue
		}
		c.mu.Lock()
		switch ch := c.wait[m.ID]; {
		case m.ID > 0 && ch != nil:
			ch <- m.reply
			delete(c.wait, m.ID)
		case m.Method == "ServiceWorker.workerRegistrationUpdated":
			c.workers = append(c.workers, string(m.Params))
		case m.Method == "Log.entryAdded", m.Method == "Runtime.exceptionThrown", m.Method == "Runtime.consoleAPICalled":
			c.said = append(c.said, string(m.Params))
		}
		c.mu.Unlock()
	}
}

// call asks the browser, or one of its pages, and reads the answer into out.
func (c *chromium) call(session, method string, params any, out any) error {
	ch := make(chan reply, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.wait[id] = ch
	c.mu.Unlock()
	m := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		m["sessionId"] = session
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := c.to.Write(append(raw, 0)); err != nil {
		return err
	}
	select {
	case r := <-ch:
		if r.Error != nil {
			return fmt.Errorf("%s: %s", method, r.Error.Message)
		}
		if out == nil {
			return nil
		}
		return json.Unmarshal(r.Result, out)
	case <-time.After(waitMost):
		return fmt.Errorf("%s: no answer", method)
	}
}

// page is a tab.
type page struct {
	*chromium
	session string
	context string
}

// open opens a tab; anew in a context without the cookies and keys of the others.
func (c *chromium) open(address string, anew bool) *page {
	c.t.Helper()
	p := &page{chromium: c}
	if anew {
		var made struct{ BrowserContextID string }
		must(c.t, c.call("", "Target.createBrowserContext", map[string]any{}, &made))
		p.context = made.BrowserContextID
	}
	p.tab()
	p.visit(address)
	return p
}

// beside opens another tab with the same cookies and keys.
func (p *page) beside(address string) *page {
	p.t.Helper()
	q := &page{chromium: p.chromium, context: p.context}
	q.tab()
	q.visit(address)
	return q
}

// opened is the tab that a page has just opened, by the end of its address.
func (p *page) opened(end string) *page {
	p.t.Helper()
	for late := time.Now().Add(waitMost); time.Now().Before(late); <-time.After(20 * time.Millisecond) {
		var all struct {
			TargetInfos []struct {
				TargetID, URL string
				Attached      bool
			}
		}
		must(p.t, p.call("", "Target.getTargets", map[string]any{}, &all))
		for _, target := range all.TargetInfos {
			if strings.HasSuffix(target.URL, end) && !target.Attached {
				q := &page{chromium: p.chromium, context: p.context}
				q.attach(target.TargetID)
				return q
			}
		}
	}
	p.t.Fatalf("no tab was opened at %s", end)
	return nil
}

func (p *page) tab() {
	p.t.Helper()
	params := map[string]any{"url": "about:blank"}
	if p.context != "" {
		params["browserContextId"] = p.context
	}
	var target struct{ TargetID string }
	must(p.t, p.call("", "Target.createTarget", params, &target))
	p.attach(target.TargetID)
}

func (p *page) attach(target string) {
	p.t.Helper()
	var attached struct{ SessionID string }
	must(p.t, p.call("", "Target.attachToTarget", map[string]any{"targetId": target, "flatten": true}, &attached))
	p.session = attached.SessionID
	for _, part := range []string{"Page", "Runtime", "Log", "Network"} {
		must(p.t, p.call(p.session, part+".enable", map[string]any{}, nil))
	}
	p.focus(true)
}

// focus has the page take itself for the one that a person looks at.
func (p *page) focus(on bool) {
	p.t.Helper()
	must(p.t, p.call(p.session, "Emulation.setFocusEmulationEnabled", map[string]any{"enabled": on}, nil))
}

// touch moves the pointer over the page, as a person does who reads it.
func (p *page) touch() {
	p.t.Helper()
	for x := range 3 {
		must(p.t, p.call(p.session, "Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": 3 + 4*x, "y": 3 + 4*x}, nil))
	}
}

func (p *page) visit(address string) {
	p.t.Helper()
	var went struct{ ErrorText string }
	must(p.t, p.call(p.session, "Page.navigate", map[string]any{"url": address}, &went))
}

// js evaluates an expression, which may be a promise.
func (p *page) js(expression string, out any) error {
	var res struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := p.call(p.session, "Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
	}, &res)
	switch {
	case err != nil:
		return err
	case res.ExceptionDetails != nil:
		return fmt.Errorf("%s %s", res.ExceptionDetails.Text, res.ExceptionDetails.Exception.Description)
	case out == nil || len(res.Result.Value) == 0:
		return nil
	}
	return json.Unmarshal(res.Result.Value, out)
}

// text is what the page shows.
func (p *page) text() (text string) {
	_ = p.js("document.body?.innerText ?? ''", &text)
	return text
}

// until waits until a condition holds in the page.
func (p *page) until(condition string) {
	p.t.Helper()
	for late := time.Now().Add(waitMost); ; <-time.After(20 * time.Millisecond) {
		ok := false
		if err := p.js("!!("+condition+")", &ok); err == nil && ok {
			return
		}
		if time.Now().After(late) {
			p.mu.Lock()
			said := strings.Join(p.said, "\n")
			p.mu.Unlock()
			p.t.Fatalf("never: %s\n%s\n%s", condition, p.text(), said)
		}
	}
}

// shows waits for a text.
func (p *page) shows(text string) {
	p.t.Helper()
	quoted, _ := json.Marshal(text)
	p.until("document.body.innerText.includes(" + string(quoted) + ")")
}

// click presses the button of a name once it can be pressed.
func (p *page) click(name string) {
	p.t.Helper()
	quoted, _ := json.Marshal(name)
	find := "[...document.querySelectorAll('button')].find(b => b.textContent.trim() === " + string(quoted) + " && !b.disabled)"
	p.until(find)
	must(p.t, p.js(find+".click()", nil))
}

// picture is what the page looks like.
func (p *page) picture(file string) {
	p.t.Helper()
	var shot struct{ Data string }
	must(p.t, p.call(p.session, "Page.captureScreenshot", map[string]any{"format": "webp", "quality": 70}, &shot))
	raw, err := base64.StdEncoding.DecodeString(shot.Data)
	must(p.t, err)
	must(p.t, os.WriteFile(file, raw, 0o644))
}

// looks sets how large the page is and which colours its person prefers.
func (p *page) looks(width, height int, phone bool, colours string) {
	p.t.Helper()
	must(p.t, p.call(p.session, "Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone,
	}, nil))
	must(p.t, p.call(p.session, "Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": colours}},
	}, nil))
}

// clean fails the test when a page threw, or was refused something by its own rules.
func (p *page) clean() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.said {
		if strings.Contains(s, "Content Security Policy") || strings.Contains(s, "TrustedHTML") || strings.Contains(s, "exceptionDetails") {
			p.t.Errorf("a page complains: %s", s)
		}
	}
}
