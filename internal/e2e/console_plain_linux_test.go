package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// beyondThisMachine is where a daemon can be reached from elsewhere: what runs commands there and here, and the daemon's
// address. Root joins two networks; an ordinary user calls this machine by an address that is not its loopback's.
func beyondThisMachine(t *testing.T) (here, there []string, address string) {
	t.Helper()
	if os.Geteuid() == 0 {
		here, there = wire(t)
		return here, there, "192.0.2.1"
	}
	all, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return nil, nil, n.IP.String()
		}
	}
	t.Skip("UNPROVEN HERE: this machine has no address but its loopback, and an ordinary user cannot join two networks")
	return nil, nil, ""
}

// A browser of another machine that comes over plain HTTP is paired, sees a question, and denies it. Its page offers nothing
// else; and whoever takes its key, as anybody can who is the page, allows nothing with it at any listener.
func TestTheConsoleOverPlainHTTPDenies(t *testing.T) {
	t.Parallel()
	here, there, address := beyondThisMachine(t)
	d := newDaemon(t)
	d.env = []string{"PALYRA_CONSOLE_PLAIN_LISTEN=" + address + ":0", "PALYRA_LIMITS_LOGIN_PER_MINUTE=100"}
	d.command(append(here, bin(t, "palyrad"))...)
	if !d.serving() {
		t.Fatalf("the daemon died:\n%s", d.log)
	}
	owner := &elsewhere{t: t, home: d.home}
	shows := atTerminal(t, owner.command("console", "pair", "--door", "plain", "--role", "owner"))
	link := shows.find(`Open\s+(http://` + address + `:\S+#pair=\S{43})\s`)[1]
	p := chromiumIn(t, there).open(link, true)
	p.click("Sign in")
	p.shows("Compare this key")
	shows.find(`to deny as`)
	var print string
	must(t, p.js("document.querySelector('[data-testid=fingerprint]').textContent", &print))
	if its := strings.TrimSpace(shows.find(`Its key is\s+([0-9A-F ]{39})\s`)[1]); its != print {
		t.Fatalf("the terminal shows the key %q, the page %q", its, print)
	}
	shows.find(`Type allow`)
	shows.enter("allow")
	if code, said := shows.end(); code != 0 {
		t.Fatalf("exit %d:\n%s", code, said)
	}
	p.until("!document.querySelector('.pairing')")
	secure := true
	if must(t, p.js("isSecureContext || !!crypto.subtle", &secure)); secure {
		t.Error("the page has WebCrypto: this shows nothing")
	}
	agent, op := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	ch := propose(t.Context(), agent, write(d.work, "a.txt", "hello"))
	p.choose(d)
	p.until("document.querySelector('[data-testid=question]')?.innerText.includes('+hello')")
	var offered []string
	must(t, p.js("[...document.querySelectorAll('.answers button')].map(b => b.innerText)", &offered))
	if len(offered) != 1 || offered[0] != "Deny" {
		t.Errorf("%q", offered)
	}
	a := d.pending(op)
	stolenPlainKey(t, d, p, a, here)
	p.axe("a question over plain HTTP")
	p.click("Deny")
	if r := <-ch; r.err != nil || r.out.ReasonCode != palyra.ReasonApprovalDenied {
		t.Fatalf("%+v", r)
	}
	all, err := op.Devices(t.Context())
	if err != nil || len(all) != 1 || !strings.HasPrefix(all[0].Address, "http://"+address) {
		t.Fatalf("%+v %v", all, err)
	}
	a, err = op.Approval(t.Context(), a.ID)
	must(t, err)
	if v := a.Decision.Votes; len(v) != 1 || v[0].Answer != palyra.AnswerDeny || v[0].Signature.Intent.KeyID != all[0].KeyID {
		t.Errorf("%+v", a.Decision)
	}
	if list := owner.must("device", "list"); !strings.Contains(list, "only denies") {
		t.Errorf("%s", list)
	}
	d.verify()
	dir := t.TempDir()
	keys, export := filepath.Join(dir, "keys"), filepath.Join(dir, "export")
	owner.must("keys", "export", "--out", keys)
	owner.must("journal", "export", "--out", export)
	if said, err := exec.Command(bin(t, "palyra-verify"), "--key", keys, export).CombinedOutput(); err != nil {
		t.Errorf("%s %v", said, err)
	}
	p.clean()
}

// stolenPlainKey: the key is taken out of the page, and an allow is signed with it as the page would sign it.
func stolenPlainKey(t *testing.T, d *daemon, p *page, a palyra.Approval, here []string) {
	t.Helper()
	var key struct {
		ID     string
		Secret []byte
	}
	must(t, p.js(`new Promise(done => { const open = indexedDB.open("palyra", 1); open.onsuccess = () => {
		const get = open.result.transaction("keys").objectStore("keys").get("own");
		get.onsuccess = () => done({id: get.result.id, secret: btoa(String.fromCharCode(...get.result.private))}); }; })`, &key))
	if len(key.Secret) != ed25519.SeedSize {
		t.Fatalf("%d bytes", len(key.Secret))
	}
	sign := func() string {
		s := intentFor(d, a, palyra.Device{KeyID: key.ID})
		s.Intent.Nonce = base64.RawURLEncoding.EncodeToString([]byte(rand.Text()[:16]))
		sig := ed25519.Sign(ed25519.NewKeyFromSeed(key.Secret), must1(s.Intent.Bytes()))
		head, err := json.Marshal(map[string]string{
			"nonce": s.Intent.Nonce, "time": s.Intent.Time, "key_id": key.ID, "sig": base64.StdEncoding.EncodeToString(sig),
		})
		must(t, err)
		return string(head)
	}
	raw, err := json.Marshal(intentFor(d, a, palyra.Device{}).Fields)
	must(t, err)
	ask := func(how string) (said string) {
		must(t, p.js(`fetch("/palyra.v1.ApprovalsService/DecideApproval", {method: "POST", body: `+string(must1(json.Marshal(string(raw))))+`,
			headers: {"Content-Type": "application/json", `+how+`"Palyra-Intent": `+string(must1(json.Marshal(sign())))+`}}).then(r => r.text())`, &said))
		return said
	}
	if said := ask(`"Palyra-Page": localStorage.getItem("palyra.page"), `); !strings.Contains(said, string(palyra.ReasonInsecureChannel)) {
		t.Errorf("the plain listener: %s", said)
	}
	if here != nil { // the console on this machine is in the other network
		return
	}
	base := "http://" + must1(d.client(client.OperatorDoor).Status(t.Context())).Console
	status, said := newBrowser(t, base).call("ApprovalsService/DecideApproval", string(raw),
		func(r *http.Request) { r.Header.Set("Palyra-Intent", sign()) })
	if status == http.StatusOK || !strings.Contains(said, string(palyra.ReasonBadCredential)) {
		t.Errorf("the console on this machine: %d %s", status, said)
	}
}
