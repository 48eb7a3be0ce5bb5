package pairing

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"testing"
	"time"

	"palyra"
)

// met is a device's side that has proven the code and a session for it, without a
// network in between.
func met(t *testing.T) (*join, sharedKey, *host) {
	t.Helper()
	h := newHost(t)
	h.show()
	j := h.device("laptop").ready("12345678")
	t.Cleanup(func() { _ = j.conn.Close() })
	s, err := j.binding.session([]byte("secret"), pinContext)
	must(t, err)
	return j, s, h
}

// What a daemon says after it has shown that it knows the code is checked all the
// same: the authorities it names must stand behind its own certificate.
func TestTrust(t *testing.T) {
	j, s, h := met(t)
	other := newAuthority(t)
	another, err := j.binding.session([]byte("another"), pinContext)
	must(t, err)
	good := [][]byte{h.ca.cert.Raw}
	changed := s.welcome("state-1", good)
	changed.StateID = "state-2"
	for name, c := range map[string]struct {
		m    message
		want palyra.Reason
	}{
		"good":             {s.welcome("state-1", good), ""},
		"an older one too": {s.welcome("state-1", [][]byte{other.cert.Raw, h.ca.cert.Raw}), ""},
		"another session":  {another.welcome("state-1", good), palyra.ReasonPairingImpostor},
		"another state":    {changed, palyra.ReasonPairingImpostor},
		"the device's tag": {
			message{Type: typeWelcome, StateID: "state-1", Authorities: good, Tag: s.confirm()},
			palyra.ReasonPairingImpostor,
		},
		"another authority":   {s.welcome("state-1", [][]byte{other.cert.Raw}), palyra.ReasonPairingImpostor},
		"a leaf":              {s.welcome("state-1", [][]byte{h.cert.Certificate[0]}), palyra.ReasonPairingBroken},
		"rubbish":             {s.welcome("state-1", [][]byte{{1, 2, 3}}), palyra.ReasonPairingBroken},
		"long rubbish":        {s.welcome("state-1", [][]byte{make([]byte, maxCertificate+1)}), palyra.ReasonPairingBroken},
		"none":                {s.welcome("state-1", nil), palyra.ReasonPairingBroken},
		"too many":            {s.welcome("state-1", make([][]byte, maxAuthorities+1)), palyra.ReasonPairingBroken},
		"no state":            {s.welcome("", good), palyra.ReasonPairingBroken},
		"a state that is big": {s.welcome(string(make([]byte, 129)), good), palyra.ReasonPairingBroken},
	} {
		if err := j.trust(s, c.m); reason(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	// With a scanned code the pinned authority is among them, always.
	j.Code, j.code.Pin = "x", pinOf(other.cert)
	if err := j.trust(s, s.welcome("state-1", good)); reason(err) != palyra.ReasonPairingImpostor {
		t.Errorf("another pin: %v", err)
	}
}

func TestAccept(t *testing.T) {
	j, s, h := met(t)
	c := Candidate{Name: "laptop", KeyID: KeyID(j.public), PublicKey: publicText(j.public)}
	good, err := h.ca.issue(c)
	must(t, err)
	strange, err := newAuthority(t).issue(c)
	must(t, err)
	another, err := j.binding.session([]byte("another"), pinContext)
	must(t, err)
	with := func(pub ed25519.PublicKey, usage x509.ExtKeyUsage, label string) func(*Issued) {
		return func(i *Issued) {
			i.Certificate = h.ca.leaf(label, usage, pub).Raw
			i.Device.Certificate = palyra.SumBytes(i.Certificate)
		}
	}
	id := good.Device.ID
	for name, change := range map[string]func(*Issued){
		"good":              func(*Issued) {},
		"another key":       with(newKey(t).Public().(ed25519.PublicKey), x509.ExtKeyUsageClientAuth, id),
		"a server's":        with(j.public, x509.ExtKeyUsageServerAuth, id),
		"another's name":    with(j.public, x509.ExtKeyUsageClientAuth, "dev-other"),
		"another authority": func(i *Issued) { i.Certificate, i.Device.Certificate = strange.Certificate, strange.Device.Certificate },
		"no authority":      func(i *Issued) { i.Authorities = nil },
		"rubbish":           func(i *Issued) { i.Certificate = []byte{1} },
		"another digest":    func(i *Issued) { i.Device.Certificate = palyra.SumBytes(nil) },
		"another key id":    func(i *Issued) { i.Device.KeyID = "op-x" },
		"a name to show":    func(i *Issued) { i.Device.Name = "x\x1b]0;owned\a" },
		"another id":        func(i *Issued) { i.Device.ID = "dev-other" },
		"another key text":  func(i *Issued) { i.Device.PublicKey = "x" },
	} {
		i := good
		change(&i)
		raw, err := json.Marshal(i.Device)
		must(t, err)
		_, err = j.accept(s, s.issue(raw, i.Certificate, i.Authorities))
		if want := name == "good"; (err == nil) != want || err != nil && reason(err) != palyra.ReasonPairingBroken {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := j.accept(s, another.issue(raw, i.Certificate, i.Authorities)); reason(err) != palyra.ReasonPairingImpostor {
			t.Errorf("%s by another session: %v", name, err)
		}
	}
	if _, err := j.accept(s, s.issue([]byte("{"), good.Certificate, good.Authorities)); reason(err) != palyra.ReasonPairingBroken {
		t.Errorf("no device: %v", err)
	}
	// The authority may be a newer one than at the welcome.
	raw, err := json.Marshal(strange.Device)
	must(t, err)
	if _, err := j.accept(s, s.issue(raw, strange.Certificate, strange.Authorities)); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	j.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	if _, err := j.accept(s, s.issue(raw, strange.Certificate, strange.Authorities)); reason(err) != palyra.ReasonPairingBroken {
		t.Errorf("expired: %v", err)
	}
}
