package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// fill types into the field that a selector names, as React hears it.
func (p *page) fill(selector, text string) {
	p.t.Helper()
	at, _ := json.Marshal(selector)
	value, _ := json.Marshal(text)
	p.until("document.querySelector(" + string(at) + ")")
	must(p.t, p.js(`(() => { const f = document.querySelector(`+string(at)+`);
		Object.getOwnPropertyDescriptor(Object.getPrototypeOf(f), 'value').set.call(f, `+string(value)+`);
		f.dispatchEvent(new Event(f.matches('select') ? 'change' : 'input', {bubbles: true})) })()`, nil))
}

// of is the text of the element with a test id.
func (p *page) of(id string) (text string) {
	p.t.Helper()
	at := "document.querySelector('[data-testid=" + id + "]')"
	p.until(at)
	must(p.t, p.js(at+".textContent.trim()", &text))
	return text
}

// byPINAtTerminal gives a signed-in browser a key, by the PIN that a terminal shows.
func (p *page) byPINAtTerminal(cmd *exec.Cmd) {
	p.t.Helper()
	shows := atTerminal(p.t, cmd)
	four := shows.find(`PIN\s+(\d{4}) (\d{4})`)
	p.fill("input[name=pin]", four[1]+" "+four[2])
	p.click("Pair")
	p.of("fingerprint")
	shows.find(`Type allow`)
	shows.enter("allow")
	if code, said := shows.end(); code != 0 {
		p.t.Fatalf("exit %d:\n%s", code, said)
	}
	p.until("!document.querySelector('.pairing')")
}

// The first hour: 'palyra up' shows a person the way in, the page says what to do first and sees the first agent by itself;
// the browser gets a key by a PIN, pairs a second device from its own page, and says that a question waits when nobody looks
// at it, with nothing to decide with.
func TestTheFirstHourInTheConsole(t *testing.T) {
	d := newDaemon(t)
	owner := &elsewhere{t: t, home: d.home}
	start := owner.command("up", "--detach")
	start.Env = append(slices.Concat(start.Env, anyPort), "PALYRA_PROCESS_DIR="+d.cells)
	up := atTerminal(t, start)
	link := up.find(`(http://palyra\.localhost:\d+/login\?code=\S{43})\s`)[1]
	if code, said := up.end(); code != 0 {
		t.Fatalf("exit %d:\n%s", code, said)
	}
	defer owner.must("down")
	p := newChromium(t).open(link, true)
	p.click("Sign in")
	p.shows("Nothing has asked yet")
	p.shows("palyra setup")
	p.axe("the first page")
	if _, err := d.client(client.AgentDoor).Call(t.Context(), echo("hello"), nil); err != nil {
		t.Fatal(err)
	}
	if said := p.of("came"); !strings.Contains(said, "agent:local called palyra.echo") {
		t.Errorf("%q", said)
	}
	p.until("!document.querySelector('[data-testid=first]')")
	p.byPINAtTerminal(owner.command("console", "pair", "--role", "owner"))
	second := secondDevice(t, d, p)
	noticed(t, d, p, second)
	p.clean()
}

// secondDevice pairs another machine by the code that a page of the console shows. That page's browser may not answer, too.
func secondDevice(t *testing.T, d *daemon, p *page) *elsewhere {
	t.Helper()
	m := newElsewhere(t)
	p.goTo("devices")
	p.click("Show a code")
	pin := strings.ReplaceAll(p.of("pin"), " ", "")
	p.until("document.querySelector('.qr path')?.getAttribute('d').length > 1000")
	var at string
	must(t, p.js("/palyra device join (\\S+?),/.exec(document.querySelector('.offer').innerText)[1]", &at))
	q := byPIN(at, pin)
	print := make(chan string, 1)
	q.Prepared = func(s string) { print <- s }
	joined := make(chan error, 1)
	go func() {
		_, err := m.join(t.Context(), "laptop", q)
		joined <- err
	}()
	if here, there := p.of("its-key"), <-print; here != there || len(here) < 32 {
		t.Fatalf("the page shows the key %q, the other machine %q", here, there)
	}
	p.axe("a device that is to be paired")
	a := d.pending(d.client(client.OperatorDoor))
	must(t, answerTo(t.Context(), d.client(client.OperatorDoor), a.ID, palyra.AnswerAllow))
	must(t, <-joined)
	if said := p.of("paired"); said != "Paired: laptop" {
		t.Errorf("%q", said)
	}
	p.until("[...document.querySelectorAll('tbody tr')].some(r => r.innerText.includes('laptop') && r.innerText.includes('machine'))")
	return m
}

// noticed sees that a question which comes while nobody looks is told, and no more when it was answered elsewhere.
func noticed(t *testing.T, d *daemon, p *page, second *elsewhere) {
	t.Helper()
	var base string
	must(t, p.js("location.origin", &base))
	grant := map[string]any{"permissions": []string{"notifications"}, "origin": base, "browserContextId": p.context}
	must(t, p.call("", "Browser.grantPermissions", grant, nil))
	p.click("Notices")
	p.until("document.querySelector('button[aria-pressed=true][title*=waits]')")
	p.focus(false)
	p.beside("about:blank") // which is before it now
	ch := propose(t.Context(), d.client(client.AgentDoor), write(d.work, "a.txt", "hello\u202e"))
	a := d.pending(d.client(client.OperatorDoor))
	const all = "await (await navigator.serviceWorker.ready).getNotifications()"
	var told []struct {
		Title, Body, Tag string
		Actions          int
	}
	p.until("(async () => window.told = (" + all + ").map(n => ({title: n.title, body: n.body, tag: n.tag, " +
		"actions: n.actions?.length ?? 0})))() && window.told?.length === 1")
	must(t, p.js("window.told", &told))
	if n := told[0]; len(told) != 1 || n.Actions != 0 || n.Tag != string(a.ID) || !strings.Contains(n.Body, "a.txt") ||
		!strings.Contains(n.Body, "agent:local") || strings.ContainsRune(n.Body, '\u202e') {
		t.Errorf("%+v", told)
	}
	must(t, answerTo(t.Context(), second.client(client.OperatorDoor), a.ID, palyra.AnswerDeny))
	<-ch
	p.until("(async () => window.told = " + all + ")() && window.told?.length === 0")
}

// roleSees is what a role sees and may do in the console, written from the design.
type roleSees struct {
	role     palyra.Role
	sections []string // beside those that everybody has
	reads    []string // methods that answer
	not      []string // methods that refuse to answer
	decides  bool
}

var everybody = []string{"Approvals", "Runs", "Changes", "Leases", "Policy", "Devices", "Access", "Agents", "Posture", "Status"}

const (
	readsJournal = "JournalService/GetHead"
	readsVault   = "VaultService/ListSecrets"
)

var rolesSee = []roleSees{
	{palyra.RoleViewer, nil, nil, []string{readsJournal, readsVault}, false},
	{palyra.RoleApprover, nil, nil, []string{readsJournal, readsVault}, true},
	{palyra.RoleAuditor, []string{"Journal"}, []string{readsJournal}, []string{readsVault}, false},
	{palyra.RoleOperator, []string{"Journal", "Vault"}, []string{readsJournal, readsVault}, nil, true},
}

// What a role must not see is in no page of its, and its session gets it from no method; what it must not do is not to be
// pressed, and a session alone does nothing of any of it.
func TestWhatRolesSeeInTheConsole(t *testing.T) {
	d := newDaemon(t)
	d.mustStart("PALYRA_LIMITS_LOGIN_PER_MINUTE=100")
	op := d.client(client.OperatorDoor)
	p := pairedBrowser(t, d, "owner")
	ch := propose(t.Context(), d.client(client.AgentDoor), write(d.work, "a.txt", "hello"))
	a := d.pending(op)
	for _, r := range rolesSee {
		t.Run(string(r.role), func(t *testing.T) {
			who := palyra.Principal("user:" + r.role)
			_, err := op.AddUser(t.Context(), palyra.User{Principal: who, Role: r.role})
			must(t, err)
			link, _, err := d.paired(string(r.role), who, r.role).client(client.OperatorDoor).OpenConsole(t.Context())
			must(t, err)
			q := p.open(link, true)
			q.click("Sign in")
			q.pairedFrom(d, p, who, r.role)
			roleInItsPages(t, q, r, a)
			roleByItsSession(t, q, r, a)
		})
	}
	must(t, answerTo(t.Context(), op, a.ID, palyra.AnswerDeny))
	<-ch
}

// pairedFrom gives a signed-in browser a key, from the page of one who may.
func (p *page) pairedFrom(d *daemon, owner *page, who palyra.Principal, role palyra.Role) {
	p.t.Helper()
	owner.goTo("devices")
	owner.fill(".offer label:nth-of-type(1) select", "browser")
	owner.until("[...document.querySelectorAll('.offer option')].some(o => o.value === '" + string(who) + "')")
	owner.fill(".offer label:nth-of-type(2) select", string(who))
	owner.fill(".offer label:nth-of-type(3) select", map[bool]string{true: "", false: string(role)}[role == palyra.RoleApprover])
	owner.click("Show a code")
	p.fill("input[name=pin]", owner.of("pin"))
	p.click("Pair")
	if here, there := owner.of("its-key"), p.of("fingerprint"); here != there {
		p.t.Fatalf("one page shows the key %q, the other %q", here, there)
	}
	op := d.client(client.OperatorDoor)
	all, err := op.Approvals(p.t.Context(), client.ApprovalFilter{Pending: true})
	must(p.t, err)
	at := slices.IndexFunc(all.Approvals, func(a palyra.Approval) bool { return a.SubjectType == palyra.SubjectPairing })
	must(p.t, answerTo(p.t.Context(), op, all.Approvals[at].ID, palyra.AnswerAllow))
	p.until("!document.querySelector('.pairing')")
	owner.of("paired")
}

// roleInItsPages holds the pages of a role against what it may see and press.
func roleInItsPages(t *testing.T, p *page, r roleSees, a palyra.Approval) {
	t.Helper()
	want := slices.Concat(everybody, r.sections)
	slices.Sort(want)
	var has []string
	p.until(fmt.Sprintf("document.querySelectorAll('nav a').length === %d", len(want)))
	must(t, p.js("[...document.querySelectorAll('nav a')].map(a => a.firstChild.textContent).sort()", &has))
	if !slices.Equal(has, want) {
		t.Errorf("sections %q, not %q", has, want)
	}
	for section, method := range map[string]string{"journal": readsJournal, "vault": readsVault} { // by its address all the same
		p.goTo(section)
		if slices.Contains(r.not, method) {
			p.until("document.querySelector('.trouble')?.innerText.includes('permission_denied')")
		}
	}
	p.goTo("approvals/" + string(a.ID))
	p.shows("+hello")
	p.touch()
	p.until(p.pressable("Allow once") + " || document.body.innerText.includes('Your role looks; it does not answer')")
	var can bool
	must(t, p.js(p.pressable("Allow once"), &can))
	if can != r.decides {
		t.Errorf("an answer can be pressed: %v", can)
	}
	p.goTo("devices")
	p.shows("this browser needs a key and the role of an admin or owner")
	p.until("document.querySelectorAll('tbody button').length > 0 && [...document.querySelectorAll('tbody button')].every(b => b.disabled)")
}

// roleByItsSession asks the services directly, with the cookie of a role's browser.
func roleByItsSession(t *testing.T, p *page, r roleSees, a palyra.Approval) {
	t.Helper()
	b, with := p.thief()
	for _, method := range r.reads {
		if status, said := b.call(method, "{}", with); status != http.StatusOK {
			t.Errorf("%s: %d %s", method, status, said)
		}
	}
	for _, method := range r.not {
		if status, said := b.call(method, "{}", with); status == http.StatusOK || !strings.Contains(said, string(palyra.ReasonPermission)) {
			t.Errorf("%s: %d %s", method, status, said)
		}
	}
	decide := `{"approval_id":"` + string(a.ID) + `","answer":"allow","scope":"once","plan_digest":"` + string(a.PlanDigest) + `"}`
	for method, body := range map[string]string{
		"ApprovalsService/DecideApproval": decide, "ApprovalsService/RevokeGrant": `{"grant_id":"x"}`,
		"AccessService/AddUser": `{"principal":"user:mallory","role":"owner"}`, "AccessService/RevokeToken": `{"token_id":"x"}`,
		"PolicyService/ApplyPolicy": `{"files":{}}`, "WorkspaceService/AddWorkspace": `{"path":"/"}`,
		"DeviceService/RevokeDevice": `{"device_id":"x"}`, "McpService/ApproveUpstream": `{"name":"x"}`,
		"ChangeService/UndoCall": `{"call_id":"x"}`, "ToolService/CancelCall": `{"call_id":"x"}`,
		"VaultService/PutSecret": `{"name":"x"}`, "VaultService/RevealSecret": `{"name":"x"}`, "KeyService/RotateKey": `{}`,
		"ObserveService/SetObservation": `{}`, "StatusService/Shutdown": `{}`,
	} {
		status, said := b.call(method, body, with)
		if status == http.StatusOK || !strings.Contains(said, string(palyra.ReasonSignatureRequired)) {
			t.Errorf("a session alone: %s: %d %s", method, status, said)
		}
	}
}
