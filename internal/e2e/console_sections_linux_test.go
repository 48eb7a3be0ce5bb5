package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// consoleSections are the pages of the console, with something that each shows.
var consoleSections = map[string]string{
	"approvals": "Waiting", "runs": "Calls", "changes": "Changes", "leases": "Leases", "policy": "What was in force", "journal": "Checkpoint",
	"vault": "Bindings", "devices": "browser", "access": "You are", "agents": "MCP servers", "posture": "Posture", "status": "Version",
}

// goTo opens a section in the page that is there.
func (p *page) goTo(place string) {
	p.t.Helper()
	quoted, _ := json.Marshal("#/" + place)
	must(p.t, p.js("location.hash = "+string(quoted), nil))
}

// choose opens the question that waits, by its row.
func (p *page) choose(d *daemon) {
	p.t.Helper()
	a := d.pending(d.client(client.OperatorDoor))
	p.goTo("approvals")
	row := `document.querySelector('[data-approval="` + string(a.ID) + `"]')`
	p.until(row + " && (" + row + ".click(), true)")
	p.until("document.querySelector('[data-testid=digest]')?.textContent === '" + string(a.PlanDigest) + "'")
	p.touch()
}

// sure presses a button that asks back, and the one that then begins so.
func (p *page) sure(name, then string) {
	p.t.Helper()
	p.click(name)
	p.second(then)
}

// second presses the button that begins so once it can be pressed.
func (p *page) second(then string) {
	p.t.Helper()
	quoted, _ := json.Marshal(then)
	find := "[...document.querySelectorAll('button.deny')].find(b => b.textContent.startsWith(" + string(quoted) + ") && !b.disabled)"
	p.until(find)
	must(p.t, p.js(find+".click()", nil))
}

// Every section shows what there is; what was allowed for the session is a lease that is revoked, what was changed is
// taken back, the journal is verified; and all of it can be used without eyes or a mouse, as far as axe can tell.
func TestTheSectionsOfTheConsole(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	p := pairedBrowser(t, d, "owner")
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	ch := propose(t.Context(), agent, write(d.work, "a.txt", "hello"))
	p.choose(d)
	p.click("Allow for this session")
	r := <-ch
	if r.err != nil || r.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", r)
	}
	for name, shows := range consoleSections {
		at := time.Now()
		p.goTo(name)
		p.shows(shows)
		p.until("![...document.querySelectorAll('[role=status]')].some(e => e.textContent.startsWith('Asking'))")
		var trouble string
		must(t, p.js("document.querySelector('.trouble')?.innerText ?? ''", &trouble))
		if trouble != "" {
			t.Errorf("%s: %s", name, trouble)
		}
		p.axe(name)
		t.Logf("%s: %s", name, time.Since(at).Round(time.Millisecond))
	}
	for _, place := range []string{"runs/call%3A", "policy/", "journal/", "changes/"} {
		p.goTo(place + string(r.out.CallID))
		p.shows(string(r.out.CallID))
	}
	p.goTo("journal/" + string(r.out.CallID))
	p.until("document.querySelectorAll('[data-testid=checks] tbody tr').length === 7")
	var held []string
	must(t, p.js("[...document.querySelectorAll('[data-testid=checks] tbody tr')].map(r => r.cells[1].innerText)", &held))
	if slices.ContainsFunc(held, func(s string) bool { return s != "yes" }) {
		t.Errorf("not all checks hold: %q\n%s", held, p.text())
	}
	p.goTo("policy")
	p.click("Judge them again")
	p.until("/Answered as before\\s+[1-9]/.test(document.querySelector('[data-testid=replayed]')?.innerText)")
	p.click("Suggest rules")
	p.until("document.querySelector('[data-testid=suggested]')")
	p.axe("calls on record")
	p.click("Check")
	p.until("document.body.innerText.includes(': good')")
	p.goTo("leases")
	p.sure("Revoke", "Revoke now: ")
	p.shows("Nothing is allowed in advance")
	if all, err := person.Leases(t.Context(), palyra.LeaseFilter{}); err != nil || len(all.Leases) != 0 {
		t.Errorf("%+v %v", all, err)
	}
	p.goTo("changes/" + string(r.out.CallID))
	p.sure("Undo", "Put back what was there before: ")
	p.until("document.body.innerText.includes('undone')")
	if _, err := os.Stat(filepath.Join(d.work, "a.txt")); !os.IsNotExist(err) {
		t.Errorf("it is there after it was undone: %v", err)
	}
	p.goTo("journal")
	p.click("Verify")
	p.until("document.querySelector('[data-testid=verified]')?.innerText.startsWith('whole')")
	p.clean()
}

// axe fails the test when the page has a fault that axe finds.
func (p *page) axe(name string) {
	p.t.Helper()
	there := false
	if must(p.t, p.js("!!window.axe", &there)); !there { // a section is no new page
		raw, err := os.ReadFile(axeFile(p.t))
		must(p.t, err)
		must(p.t, p.js(string(raw)+"; 0", nil))
	}
	var faults []struct {
		ID, Help string
		Nodes    []struct{ HTML string }
	}
	must(p.t, p.js("axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)", &faults))
	for _, f := range faults {
		p.t.Errorf("%s: %s: %s: %.300s", name, f.ID, f.Help, f.Nodes[0].HTML)
	}
}

var axePlace = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("../../scripts/node.sh", "../../console").Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return filepath.Join(lines[len(lines)-1], "node_modules", "axe-core", "axe.min.js"), err
})

func axeFile(t testing.TB) string {
	t.Helper()
	file, err := axePlace()
	if err != nil {
		t.Fatalf("axe-core is missing: scripts/setup.sh test installs it: %v", err)
	}
	return file
}

// What an agent writes to mislead is seen and does nothing.
func TestHostileTextInTheConsole(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	p := pairedBrowser(t, d, "approver")
	bad := "\x1b[2J\x1b]0;x\x07 <img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script> a\u202egpj.exe z\u200bero " +
		"p\u0430ypal &lt; " + strings.Repeat("x", 100<<10) + " THE END"
	ctx := t.Context()
	ch := propose(ctx, d.client(client.AgentDoor), write(d.work, "bad.txt", bad))
	p.choose(d)
	p.until("document.querySelector('[data-testid=question]').innerText.length > 1000")
	text := p.text()
	for _, want := range []string{`\x1b[2J`, `<img src=x onerror=`, `<script>`, `\u{202e}`, `\u{200b}`, `p\u{430}ypal`, `&lt;`, "THE END"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not to be seen", want)
		}
	}
	for _, lost := range []string{"\x1b", "\u202e", "\u200b", "\u0430"} {
		if strings.Contains(text, lost) {
			t.Errorf("%q is in the page as it is", lost)
		}
	}
	var hacked bool
	must(t, p.js("!!window.hacked || !!document.querySelector('#root img, #root b, #root script')", &hacked))
	if hacked {
		t.Error("what an agent wrote became a part of the page")
	}
	p.click("Deny")
	<-ch
	p.clean()
}

// Of two tabs that answer at once one wins, and both say what was answered.
func TestTwoTabsOfTheConsole(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	p := pairedBrowser(t, d, "approver")
	var base string
	must(t, p.js("location.origin", &base))
	q := p.beside(base + "/")
	for i := range 3 {
		ch := propose(t.Context(), d.client(client.AgentDoor), write(d.work, fmt.Sprintf("%d.txt", i), "x"))
		press := map[*page]string{p: "Allow once", q: "Deny"}
		for tab, name := range press {
			tab.choose(d)
			quoted, _ := json.Marshal(name)
			tab.until("[...document.querySelectorAll('button')].find(b => b.textContent.trim() === " + string(quoted) + " && !b.disabled)")
		}
		var wg sync.WaitGroup
		for tab, name := range press {
			wg.Go(func() {
				quoted, _ := json.Marshal(name)
				_ = tab.js("[...document.querySelectorAll('button')].find(b => b.textContent.trim() === "+string(quoted)+")?.click()", nil)
			})
		}
		wg.Wait()
		r := <-ch
		said := "Denied"
		if r.out.Outcome == palyra.OutcomeFinished {
			said = "Allowed"
		}
		for tab := range press {
			tab.until("document.querySelector('[data-testid=settled]')?.innerText.startsWith('" + said + "')")
		}
	}
}

// The page goes on when the daemon comes back; its person need not sign in again.
func TestTheConsoleReconnects(t *testing.T) {
	d := newDaemon(t)
	address := freePort(t)
	d.mustStart("PALYRA_CONSOLE_LISTEN=" + address)
	p := pairedBrowser(t, d, "approver")
	p.until("document.querySelector('.live.on')")
	d.stop()
	p.until("document.querySelector('.live:not(.on)')")
	d.mustStart("PALYRA_CONSOLE_LISTEN=" + address)
	p.until("document.querySelector('.live.on')")
	ch := propose(t.Context(), d.client(client.AgentDoor), write(d.work, "after.txt", "x"))
	p.choose(d)
	p.click("Allow once")
	if r := <-ch; r.err != nil || r.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", r)
	}
	// a browser whose key was revoked is signed out for good
	all, err := d.client(client.OperatorDoor).Devices(t.Context())
	must(t, err)
	_, err = d.client(client.OperatorDoor).RevokeDevice(t.Context(), all[0].ID)
	must(t, err)
	p.shows("not signed in any more")
}

// frameMost is how long a frame may take, of twenty the slowest but one, with thousands of questions in the list; a busy
// machine has five times as long (BenchmarkConsoleList measures it).
const frameMost = 5 * 50 * time.Millisecond

// manyTimes has the page's stream of questions tell the first one 10,000 times, each with an id of its own.
const manyTimes = `(() => {
	const real = window.fetch;
	window.fetch = async (input, init) => {
		const res = await real(input, init);
		if (!String(input.url ?? input).includes("WatchApprovals")) return res;
		const { value } = await res.body.getReader().read();
		const text = Array.from(value, b => String.fromCharCode(b)).join("");
		const id = /01[0-9A-HJKMNP-TV-Z]{24}/.exec(text)[0];
		const stream = new ReadableStream({ start(c) {
			for (let i = 0; i < 10000; i++) {
				const one = text.replaceAll(id, id.slice(0, -5) + String(i).padStart(5, "0"));
				c.enqueue(Uint8Array.from(one, x => x.charCodeAt(0)));
			}
		} });
		return new Response(stream, { status: 200, headers: res.headers });
	};
})()`

// A list of 10,000 questions is scrolled smoothly, since only those on the screen are there.
func TestALongListInTheConsole(t *testing.T) {
	median, p95, rows := scrolled(t)
	t.Logf("frames: median %s, p95 %s, %d rows there", median, p95, rows)
	if p95 > frameMost || rows > 60 {
		t.Errorf("p95 %s, at most %s; %d rows", p95, frameMost, rows)
	}
}

// scrolled scrolls through 10,000 questions, and returns how long frames took and how many rows were there.
func scrolled(t testing.TB) (median, p95 time.Duration, rows int) {
	t.Helper()
	d := newDaemon(t)
	d.mustStart()
	p := pairedBrowser(t, d, "approver")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ch := propose(ctx, d.client(client.AgentDoor), write(d.work, "a.txt", "x"))
	p.until("document.querySelector('[data-approval]')")
	must(t, p.call(p.session, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": manyTimes}, nil))
	must(t, p.call(p.session, "Page.reload", map[string]any{}, nil))
	p.until("document.querySelector('.rows')?.getBoundingClientRect().height > 600000")
	var frames []float64
	must(t, p.js(`new Promise(done => {
		const list = document.querySelector('.list'), all = []; let last = performance.now(), at = 0;
		const step = now => { all.push(now - last); last = now; list.scrollTop = (at += 997) % 600000;
			all.length < 240 ? requestAnimationFrame(step) : done(all.slice(10).sort((a, b) => a - b)) };
		requestAnimationFrame(step) })`, &frames))
	must(t, p.js("document.querySelectorAll('[data-approval]').length", &rows))
	cancel()
	<-ch
	at := func(part int) time.Duration {
		return time.Duration(frames[len(frames)*part/100] * float64(time.Millisecond))
	}
	return at(50), at(95), rows
}

// Many questions are denied at once, those that the filter leaves and no others; all records are exported, sealed, with
// a signature.
func TestManyQuestionsInTheConsole(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	p := pairedBrowser(t, d, "owner")
	var all []<-chan answer
	for i := range 5 {
		all = append(all, propose(t.Context(), d.client(client.AgentDoor), write(d.work, fmt.Sprintf("bad-%d.txt", i), "x")))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	good := propose(ctx, d.client(client.AgentDoor), write(d.work, "good.txt", "x"))
	p.until("document.querySelectorAll('[data-approval]').length === 6")
	must(t, p.js(`(() => { const f = document.querySelector('[aria-label=Filter]');
		Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(f, 'bad-');
		f.dispatchEvent(new Event('input', {bubbles: true})) })()`, nil))
	p.sure("Deny these 5", "Deny: 5 questions")
	for _, ch := range all {
		if r := <-ch; r.out.ReasonCode != palyra.ReasonApprovalDenied {
			t.Errorf("%+v", r.out)
		}
	}
	if n := d.pending(d.client(client.OperatorDoor)); !strings.Contains(n.Prompt.Summary, "good.txt") {
		t.Errorf("%+v", n.Prompt)
	}
	must(t, p.js(`(() => { const real = URL.createObjectURL;
		URL.createObjectURL = b => { b.text().then(s => window.saved = s); return real(b) } })()`, nil))
	p.click("Answered")
	p.sure("Export", "Export: all records, signed")
	p.until("window.saved")
	var saved string
	must(t, p.js("window.saved", &saved))
	if lines := strings.Split(strings.TrimSpace(saved), "\n"); len(lines) < 7 || !strings.Contains(lines[len(lines)-1], "sig") {
		t.Errorf("%d lines:\n%s", len(lines), saved)
	}
	cancel()
	<-good
	p.clean()
}
