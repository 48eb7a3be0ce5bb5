package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// pairedBrowser signs a real browser in, and has a person at a terminal pair it.
func pairedBrowser(t testing.TB, d *daemon, role string) *page {
	t.Helper()
	owner := &elsewhere{t: t, home: d.home}
	shows := atTerminal(t, owner.command("console", "pair", "--role", role))
	link := shows.find(`Open\s+(http://palyra\.localhost:\S+#pair=\S{43})\s`)[1]
	p := newChromium(t).open(link, true)
	p.click("Sign in")
	p.shows("Compare this key")
	var print string
	must(t, p.js("document.querySelector('[data-testid=fingerprint]').textContent", &print))
	if here := strings.TrimSpace(shows.find(`Its key is\s+([0-9A-F ]{39})\s`)[1]); here != print || len(here) < 32 {
		t.Fatalf("the terminal shows the key %q, the page %q", here, print)
	}
	shows.find(`Type allow`)
	shows.enter("allow")
	if code, said := shows.end(); code != 0 || !strings.Contains(said, "Paired: chromium-") {
		t.Fatalf("exit %d:\n%s", code, said)
	}
	p.until("!document.querySelector('.pairing')")
	return p
}

// A person signs a browser in by the link, pairs it at the terminal, sees questions come, denies one and allows one; the
// evidence holds, by the browser's own key.
func TestDecidingInABrowser(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	p := pairedBrowser(t, d, "approver")
	p.shows("Nothing waits for an answer")
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)

	ch := propose(t.Context(), agent, write(d.work, "denied.txt", "x"))
	p.choose(d)
	p.until("document.querySelector('[data-testid=question]')?.innerText.includes('+x')") // the diff
	p.click("Deny")
	if r := <-ch; r.err != nil || r.out.ReasonCode != palyra.ReasonApprovalDenied {
		t.Fatalf("%+v", r)
	}
	p.until("document.querySelector('[data-testid=settled]')?.innerText.includes('Denied')")

	ch = propose(t.Context(), agent, write(d.work, "a.txt", "hello"))
	p.choose(d)
	p.until("document.querySelector('[data-testid=question]')?.innerText.includes('+hello')")
	p.click("Allow once")
	r := <-ch
	if r.err != nil || r.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", r)
	}
	if b, err := os.ReadFile(filepath.Join(d.work, "a.txt")); err != nil || string(b) != "hello" {
		t.Errorf("%q %v", b, err)
	}
	all, err := person.Devices(t.Context())
	if err != nil || len(all) != 1 || !all[0].Browser() {
		t.Fatalf("%+v %v", all, err)
	}
	a, err := person.Approval(t.Context(), palyra.ApprovalID(r.out.ApprovalID))
	must(t, err)
	if v := a.Decision.Votes; len(v) != 1 || v[0].Method != palyra.MethodConsole || v[0].Signature.Intent.KeyID != all[0].KeyID ||
		v[0].Separation != palyra.SeparationNone || v[0].Device {
		t.Errorf("%+v", a.Decision)
	}
	checkEvidence(t, d, person, r.out)
	signedBy(t, d, r.out, all[0])
	ch = propose(t.Context(), agent, write(d.work, "b.txt", "for a while"))
	p.choose(d)
	p.click("Allow for") // the 30 minutes that stand beside it
	<-ch
	leases, err := person.Leases(t.Context(), palyra.LeaseFilter{})
	if err != nil || len(leases.Leases) != 1 || leases.Leases[0].Scope != palyra.ScopeTimeboxed ||
		time.Until(leases.Leases[0].ExpiresAt).Round(10*time.Minute) != 30*time.Minute {
		t.Errorf("%+v %v", leases, err)
	}
	stolenCookie(t, d, p)
	p.clean()
	otherPort(t, p)
}

// signedBy has the independent verifier hold an outcome against the browser's key, and no other.
func signedBy(t *testing.T, d *daemon, out palyra.Outcome, dev palyra.Device) {
	t.Helper()
	raw, err := out.Marshal()
	must(t, err)
	file, keys := filepath.Join(d.work, "..", "outcome.json"), filepath.Join(d.work, "..", "trust.json")
	save(t, file, raw)
	for key, want := range map[string]bool{dev.PublicKey: true, base64.StdEncoding.EncodeToString(make([]byte, 32)): false} {
		said, err := exec.Command(bin(t, "palyra-verify"), "--json", "--key", keys, "--operator-key", key, file).CombinedOutput()
		if (err == nil) != want {
			t.Errorf("%s: %v\n%s", key, err, said)
		}
	}
}

// thief is a program that took the page's cookie, and what puts that into its requests.
func (p *page) thief() (*browser, func(*http.Request)) {
	p.t.Helper()
	var all struct {
		Cookies []struct {
			Name, Value string
			HTTPOnly    bool
			SameSite    string
		}
	}
	must(p.t, p.call(p.session, "Network.getCookies", map[string]any{}, &all))
	if len(all.Cookies) != 1 || !all.Cookies[0].HTTPOnly || all.Cookies[0].SameSite != "Strict" {
		p.t.Fatalf("%+v", all.Cookies)
	}
	var base string
	must(p.t, p.js("location.origin", &base))
	var secret string
	must(p.t, p.js("localStorage.getItem('palyra.page')", &secret))
	return newBrowser(p.t, base), func(r *http.Request) {
		r.Header.Set("Cookie", all.Cookies[0].Name+"="+all.Cookies[0].Value)
		r.Header.Set("Palyra-Page", secret)
	}
}

// stolenCookie: whoever has the cookie alone gets nothing; who has the secret of the console's pages as well sees what the
// person sees, and decides nothing, whatever key they make.
func stolenCookie(t *testing.T, d *daemon, p *page) {
	t.Helper()
	ch := propose(t.Context(), d.client(client.AgentDoor), write(d.work, "stolen.txt", "x"))
	a := d.pending(d.client(client.OperatorDoor))
	thief, with := p.thief()
	for name, how := range map[string]func(*http.Request){
		"alone":                      func(r *http.Request) { r.Header.Del("Palyra-Page") },
		"with a secret of their own": func(r *http.Request) { r.Header.Set("Palyra-Page", pageSecret) },
	} {
		status, said := thief.call("ApprovalsService/GetApproval", `{"approval_id":"`+string(a.ID)+`"}`, with, how)
		if status == http.StatusOK || strings.Contains(said, string(a.PlanDigest)) || !strings.Contains(said, "bad_credential") {
			t.Errorf("a cookie %s looks: %d %s", name, status, said)
		}
	}
	if status, said := thief.call("ApprovalsService/GetApproval", `{"approval_id":"`+string(a.ID)+`"}`, with); status != http.StatusOK {
		t.Errorf("looking: %d %s", status, said)
	}
	_, own, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	devices, err := d.client(client.OperatorDoor).Devices(t.Context())
	must(t, err)
	body := `{"approval_id":"` + string(a.ID) + `","answer":"allow","scope":"once","plan_digest":"` + string(a.PlanDigest) + `"}`
	for name, head := range map[string]string{
		"no signature":         "",
		"the browser's key id": devices[0].KeyID,
		"a key of their own":   "op-00000000000000000000000000000000",
	} {
		sign := func(r *http.Request) {
			if head == "" {
				return
			}
			sig := base64.StdEncoding.EncodeToString(ed25519.Sign(own, []byte("x")))
			r.Header.Set("Palyra-Intent", fmt.Sprintf(`{"nonce":"AAAAAAAAAAAAAAAAAAAAAA","time":%q,"key_id":%q,"sig":%q}`,
				palyra.Time(time.Now()), head, sig))
		}
		if status, said := thief.call("ApprovalsService/DecideApproval", body, with, sign); status == http.StatusOK {
			t.Errorf("%s: a cookie decides: %s", name, said)
		}
	}
	pair := `{"name":"thief","public_key":"` + base64.StdEncoding.EncodeToString(own.Public().(ed25519.PublicKey)) + `","code":"00000000"}`
	raw := "\x00\x00\x00\x00" + string(rune(len(pair))) + pair
	_, said := thief.do(http.MethodPost, "/palyra.v1.DeviceService/JoinBrowser", "application/connect+json", raw, with)
	if !strings.Contains(said, string(palyra.ReasonPairingExpired)) {
		t.Errorf("a cookie pairs: %q", said)
	}
	if now, err := d.client(client.OperatorDoor).Approval(t.Context(), a.ID); err != nil || !now.Pending() {
		t.Fatalf("%+v %v", now.Decision, err)
	}
	must(t, answerTo(t.Context(), d.client(client.OperatorDoor), a.ID, palyra.AnswerDeny))
	<-ch
}

// otherPort: a page that an agent serves at another port of this machine, even under the console's name, reads nothing
// of it, shows it in no frame, and makes it do nothing.
func otherPort(t *testing.T, p *page) {
	t.Helper()
	var base string
	must(t, p.js("location.origin", &base))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	evil := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>evil</title><body>evil"))
	})}
	go func() { _ = evil.Serve(l) }()
	defer func() { _ = evil.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"palyra.localhost", "localhost", "127.0.0.1"} {
		q := p.beside("http://" + host + ":" + port + "/")
		q.shows("evil")
		var said string
		to, _ := json.Marshal(base)
		for _, try := range []string{
			`fetch(BASE + "/palyra.v1.StatusService/GetStatus", {method: "POST", credentials: "include", body: "{}",
				headers: {"Content-Type": "application/json"}}).then(r => r.text(), e => "refused: " + e)`,
			`fetch(BASE + "/palyra.v1.StatusService/GetStatus", {method: "POST", mode: "no-cors", credentials: "include", body: "{}",
				headers: {"Content-Type": "text/plain"}}).then(r => "refused: " + r.type + r.status, e => "refused: " + e)`,
			`new Promise(done => { const f = document.createElement("iframe"); f.src = BASE + "/"; f.onload = () => {
				try { done(f.contentDocument && f.contentDocument.body ? "framed " + f.contentDocument.body.innerText : "refused: closed") }
				catch (e) { done("refused: " + e) } }; document.body.append(f) })`,
			`new Promise(done => { const s = document.createElement("script"); s.src = BASE + "/assets/console.js"; s.onload = () => done("read");
				s.onerror = () => done("refused: script"); document.body.append(s) })`,
		} {
			must(t, q.js(strings.ReplaceAll(try, "BASE", string(to)), &said))
			if !strings.HasPrefix(said, "refused") {
				t.Errorf("%s: %s\n%s", host, try, said)
			}
		}
	}
	ledHere(t, p, base, port)
	for _, name := range []string{"localhost", "127.0.0.1"} { // the console itself by another name
		q := p.beside(strings.Replace(base, "palyra.localhost", name, 1) + "/")
		q.shows("not served under that name")
	}
}

// ledHere: a page at another port can open the console, in its own tab or in another, and gets a page there on which
// nothing but one link can be clicked; whoever clicks that has come by themselves.
func ledHere(t *testing.T, p *page, base, port string) {
	t.Helper()
	to, _ := json.Marshal(base + "/#/approvals/stolen")
	for _, host := range []string{"palyra.localhost", "localhost"} {
		q := p.beside("http://" + host + ":" + port + "/")
		q.shows("evil")
		must(t, q.js("void open("+string(to)+")", nil))
		opened := q.opened("#/approvals/stolen")
		must(t, q.js("void (location.href = "+string(to)+")", nil))
		for _, led := range []*page{q, opened} {
			led.shows("open the console")
			led.until("!document.querySelector('button, script, #root')")
			must(t, led.js("document.querySelector('a').click()", nil))
			led.shows("Nothing waits for an answer")
			led.until("!location.hash.includes('stolen')")
		}
	}
}

// While the daemon is down somebody else takes the port where the console was, at the one address or at the other: once a
// browser is paired the daemon serves no console then, nor one at another port, and says so.
func TestASquatterAtThePairedConsole(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	var base string
	must(t, pairedBrowser(t, d, "approver").js("location.origin", &base))
	d.stop()
	_, port, _ := strings.Cut(strings.TrimPrefix(base, "http://"), ":")
	none := func(place string) {
		t.Helper()
		s, err := d.client(client.OperatorDoor).Status(t.Context())
		said := func(p string) bool {
			return strings.Contains(p, "paired browsers") && strings.Contains(p, "palyra device revoke")
		}
		if err != nil || s.Console != "" || !slices.ContainsFunc(s.Problems, said) {
			t.Errorf("%s: console %q, problems %q, %v", place, s.Console, s.Problems, err)
		}
		d.stop()
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil && host == "::1" {
			continue // there is no IPv6 here
		}
		must(t, err)
		d.mustStart("PALYRA_CONSOLE_LISTEN=127.0.0.1:" + port)
		none(host)
		must(t, l.Close())
	}
	if l, err := net.Listen("tcp", "127.0.0.1:7142"); err == nil { // else somebody has it already
		defer l.Close()
	}
	d.command("env", "-u", "PALYRA_CONSOLE_LISTEN", bin(t, "palyrad"))
	if !d.serving() {
		t.Fatalf("the daemon died:\n%s", d.log)
	}
	none("the usual port")
}
