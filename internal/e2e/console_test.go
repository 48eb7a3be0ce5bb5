//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// browser is a browser on the daemon's machine.
type browser struct {
	t    testing.TB
	base string
	http *http.Client
}

func newBrowser(t testing.TB, base string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) { // names below localhost are here
		_, port, _ := net.SplitHostPort(address)
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}
	tr := &http.Transport{DialContext: dial}
	t.Cleanup(tr.CloseIdleConnections)
	return &browser{t, base, &http.Client{Jar: jar, Transport: tr, CheckRedirect: func(*http.Request,
		[]*http.Request,
	) error {
		return http.ErrUseLastResponse
	}}}
}

// do sends a request, changed by how, and returns the answer.
func (b *browser) do(method, path, kind, body string, how ...func(*http.Request)) (*http.Response, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for _, f := range how {
		f(req)
	}
	res, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res, string(text)
}

// pageSecret is what the pages of the console keep in this browser.
var pageSecret = strings.Repeat("A", 43)

// call makes a request to a service, as a page would.
func (b *browser) call(method, body string, how ...func(*http.Request)) (int, string) {
	b.t.Helper()
	own := func(r *http.Request) { r.Header.Set("Palyra-Page", pageSecret) }
	res, text := b.do(http.MethodPost, "/palyra.v1."+method, "application/json", body, append([]func(*http.Request){own}, how...)...)
	return res.StatusCode, text
}

func (b *browser) signIn(code string) *http.Response {
	b.t.Helper()
	res, _ := b.do(http.MethodPost, "/login", "application/x-www-form-urlencoded", url.Values{"code": {code}, "page": {pageSecret}}.Encode())
	return res
}

// A second daemon of the same machine has a console too: at a port of its own, where
// nobody has set one, and its status says where and why. One that was set and is taken
// is a problem that is said.
func TestTheConsoleOfASecondDaemon(t *testing.T) {
	const usual = "127.0.0.1:7142"
	if l, err := net.Listen("tcp", usual); err == nil { // else somebody has it already
		defer l.Close()
	}
	d := newDaemon(t)
	d.command("env", "-u", "PALYRA_CONSOLE_LISTEN", bin(t, "palyrad"))
	if !d.serving() {
		t.Fatalf("the daemon died:\n%s", d.log)
	}
	s, err := d.client(client.OperatorDoor).Status(t.Context())
	said := func(p string) bool { return strings.Contains(p, usual+" is taken") && strings.Contains(p, s.Console) }
	if err != nil || s.Console == "" || s.Console == "palyra.localhost:7142" || !slices.ContainsFunc(s.Problems, said) {
		t.Errorf("console %q, problems %q, %v", s.Console, s.Problems, err)
	}
	d.stop()
	if !strings.Contains(d.log.String(), "not where it usually is") {
		t.Errorf("the log does not say it:\n%s", d.log)
	}
	d.mustStart("PALYRA_CONSOLE_LISTEN=" + usual)
	s, err = d.client(client.OperatorDoor).Status(t.Context())
	if err != nil || s.Console != "" || !slices.ContainsFunc(s.Problems, func(
		p string,
	) bool {
		return strings.Contains(p, "set console.listen to a free address")
	}) {
		t.Errorf("console %q, problems %q, %v", s.Console, s.Problems, err)
	}
}

// The link signs one browser in, once. It looks, and decides nothing.
func TestTheConsole(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	var link struct {
		URL string `json:"url"`
	}
	owner := &elsewhere{t: t, home: d.home}
	if err := json.Unmarshal([]byte(owner.must("console", "--json")), &link); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(link.URL)
	if err != nil || at.Hostname() != "palyra.localhost" {
		t.Fatalf("%q, %v", link.URL, err)
	}
	base, code := "http://"+at.Host, at.Query().Get("code")
	b := newBrowser(t, base)
	if status, said := b.call("StatusService/GetStatus", "{}"); status == http.StatusOK ||
		!strings.Contains(said, string(palyra.ReasonNoCredential)) {
		t.Errorf("a stranger: %d %s", status, said)
	}
	for range 2 { // looking at the link uses nothing up
		if res, page := b.do(http.MethodGet, at.RequestURI(), "", ""); res.StatusCode != http.StatusOK || strings.Contains(page, code) ||
			res.Header.Get("Content-Security-Policy") == "" {
			t.Fatalf("%d %v\n%s", res.StatusCode, res.Header, page)
		}
	}
	res := b.signIn(code)
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 || !res.Cookies()[0].HttpOnly ||
		res.Cookies()[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	if second := newBrowser(t, base).signIn(code); second.StatusCode != http.StatusForbidden || len(second.Cookies()) != 0 {
		t.Errorf("the link again: %d %v", second.StatusCode, second.Cookies())
	}
	if status, said := b.call("StatusService/GetStatus", "{}"); status != http.StatusOK || !strings.Contains(said, "state_id") {
		t.Errorf("signed in: %d %s", status, said)
	}
	ch := propose(t.Context(), d.client(client.AgentDoor), write(d.work, "a.txt", "x"))
	a := d.pending(d.client(client.OperatorDoor))
	if status, said := b.call("ApprovalsService/GetApproval", `{"approval_id":"`+string(a.ID)+`"}`); status != http.StatusOK ||
		!strings.Contains(said, string(a.ID)) {
		t.Errorf("a question, looked at: %d %s", status, said)
	}
	decide := `{"approval_id":"` + string(a.ID) + `","answer":"allow","scope":"once","plan_digest":"` + string(a.PlanDigest) + `"}`
	if status, said := b.call("ApprovalsService/DecideApproval", decide); status == http.StatusOK ||
		!strings.Contains(said, string(palyra.ReasonSignatureRequired)) {
		t.Errorf("a browser decides: %d %s", status, said)
	}
	strangers(t, b)
	if now, err := d.client(client.OperatorDoor).Approval(t.Context(), a.ID); err != nil || !now.Pending() {
		t.Fatalf("%+v, %v", now.Decision, err)
	}
	if err := answerTo(t.Context(), d.client(client.OperatorDoor), a.ID, palyra.AnswerDeny); err != nil {
		t.Error(err)
	}
	<-ch
	if res, _ := b.do(http.MethodPost, "/logout", "", ""); res.StatusCode != http.StatusSeeOther {
		t.Errorf("signing out: %d", res.StatusCode)
	}
	if n := len(d.lines("console.opened")); n != 1 {
		t.Errorf("%d browsers on record", n)
	}
	d.nowhere(code)
}

// strangers are requests in the browser's name that no page of ours makes.
func strangers(t *testing.T, b *browser) {
	t.Helper()
	for name, how := range map[string]func(*http.Request){
		"a name that was bound to this address": func(r *http.Request) { r.Host = "evil.example" },
		"another page's request":                func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"another name of this machine":          func(r *http.Request) { r.Host = strings.Replace(r.Host, "palyra.localhost", "127.0.0.1", 1) },
		"another port's name":                   func(r *http.Request) { r.Host = "palyra.localhost:1" },
		"the same name's other port":            func(r *http.Request) { r.Header.Set("Origin", "http://palyra.localhost:1") },
		"another port's request":                func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") },
		"a request across sites":                func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		res, said := b.do(http.MethodPost, "/palyra.v1.StatusService/GetStatus", "application/json", "{}", how)
		if res.StatusCode < 400 || strings.Contains(said, "state_id") || res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %s", name, res.StatusCode, said)
		}
	}
}
