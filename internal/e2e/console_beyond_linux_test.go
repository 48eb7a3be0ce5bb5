package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// named writes a certificate for a name with its key, and returns how Chromium names that.
func named(t *testing.T, name, certFile, keyFile string) (pin string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	must(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	must(t, err)
	sum := sha256.Sum256(public)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// A browser that calls the daemon by a name that its person has, over HTTPS, is paired, and decides with its own key and
// by passkey; the evidence has that name. A key that others can read is not served with, and the status says so.
func TestTheConsoleByANameOverHTTPS(t *testing.T) {
	const name = "laptop.example"
	d := newDaemon(t)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pin := named(t, name, cert, key)
	settings := []string{
		"PALYRA_CONSOLE_HTTPS_LISTEN=127.0.0.1:0", "PALYRA_CONSOLE_HTTPS_NAME=" + name, "PALYRA_CONSOLE_CERTIFICATE=" + cert,
		"PALYRA_CONSOLE_KEY=" + key,
	}
	must(t, os.Chmod(key, 0o644))
	d.mustStart(settings...)
	s, err := d.client(client.OperatorDoor).Status(t.Context())
	if err != nil || !strings.Contains(strings.Join(s.Problems, "\n"), "others can read") || s.Console == "" {
		t.Errorf("%q %v", s.Problems, err)
	}
	d.stop()
	must(t, os.Chmod(key, 0o600))
	d.mustStart(settings...)

	owner := &elsewhere{t: t, home: d.home}
	shows := atTerminal(t, owner.command("console", "pair", "--door", "https"))
	link := shows.find(`Open\s+(https://laptop\.example:\S+#pair=\S{43})\s`)[1]
	p := newChromium(t, "--host-resolver-rules=MAP "+name+" 127.0.0.1", "--ignore-certificate-errors-spki-list="+pin).open(link, true)
	p.click("Sign in")
	p.shows("Compare this key")
	shows.find(`Type allow`)
	shows.enter("allow")
	if code, said := shows.end(); code != 0 {
		t.Fatalf("exit %d:\n%s", code, said)
	}
	p.until("!document.querySelector('.pairing')")
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	allow := func(file string) palyra.Outcome {
		t.Helper()
		ch := propose(t.Context(), agent, write(d.work, file, "x"))
		p.choose(d)
		p.click("Allow once")
		r := <-ch
		if r.err != nil || r.out.Outcome != palyra.OutcomeFinished {
			t.Fatalf("%+v", r)
		}
		checkEvidence(t, d, person, r.out)
		return r.out
	}
	all, err := person.Devices(t.Context())
	if err != nil || len(all) != 1 || !strings.HasPrefix(all[0].Address, "https://laptop.example:") {
		t.Fatalf("%+v %v", all, err)
	}
	signedBy(t, d, allow("key.txt"), all[0])
	p.authenticator()
	dev := p.addPasskey(d)
	if dev.Passkey.Origin != all[0].Address {
		t.Errorf("%+v", dev.Passkey)
	}
	p.passkeyVote(person, allow("passkey.txt").ApprovalID, dev)
	p.clean()
}
