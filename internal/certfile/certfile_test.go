package certfile

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const name = "laptop.example"

// files are a certificate and its key.
type files struct {
	t         *testing.T
	cert, key string
}

// make writes a certificate for a name that holds so long, and its key.
func (f files) make(serial int64, name string, from, to time.Time) {
	f.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(f.t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{name}, NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	must(f.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(f.t, err)
	f.write(f.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
	f.write(f.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
}

// write puts a file in the place of another, as those do who renew certificates.
func (f files) write(name string, content []byte, mode os.FileMode) {
	f.t.Helper()
	must(f.t, os.WriteFile(name+".new", content, mode))
	must(f.t, os.Chmod(name+".new", mode))
	must(f.t, os.Rename(name+".new", name))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	f := files{t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	f.make(1, name, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	return f
}

func TestBadFiles(t *testing.T) {
	now := time.Now()
	for why, spoil := range map[string]func(f *files){
		"others can read":    func(f *files) { must(t, os.Chmod(f.key, 0o640)) },
		"is not a file":      func(f *files) { f.key = filepath.Dir(f.key) },
		"no such file":       func(f *files) { f.cert += "x" },
		"absolute paths":     func(f *files) { f.cert = "cert.pem" },
		"are needed":         func(f *files) { f.key = "" },
		"not laptop.example": func(f *files) { f.make(1, "other.example", now.Add(-time.Hour), now.Add(time.Hour)) },
		"holds from":         func(f *files) { f.make(1, name, now.Add(-2*time.Hour), now.Add(-time.Hour)) },
		"holds  from":        func(f *files) { f.make(1, name, now.Add(time.Hour), now.Add(2*time.Hour)) },
		"does not match": func(f *files) {
			old, _ := os.ReadFile(f.key)
			f.make(2, name, now, now.Add(time.Hour))
			f.write(f.key, old, 0o600)
		},
		"failed to find any":  func(f *files) { f.write(f.cert, []byte("nothing"), 0o644) },
		"larger than":         func(f *files) { f.write(f.cert, bytes.Repeat([]byte("x"), maxFile+1), 0o644) },
		"failed to find  any": func(f *files) { f.write(f.key, nil, 0o600) },
	} {
		f := newFiles(t)
		spoil(&f)
		_, err := Open(f.cert, f.key, name, time.Now)
		if want := strings.ReplaceAll(why, "  ", " "); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

// A certificate that was renewed is served by itself. One that is no good is not, and somebody hears of it once; what was
// there is served until it is over.
func TestRenewed(t *testing.T) {
	f := newFiles(t)
	at := time.Now()
	p, err := Open(f.cert, f.key, name, func() time.Time { return at })
	must(t, err)
	var heard []error
	p.Trouble = func(err error) { heard = append(heard, err) }
	serves := func(serial int64) {
		t.Helper()
		at = at.Add(every)
		c, err := p.Certificate(nil)
		if err != nil || c.Leaf.SerialNumber.Int64() != serial {
			t.Errorf("%+v %v, want number %d", c, err, serial)
		}
	}
	serves(1)
	f.make(2, name, at.Add(-time.Hour), at.Add(time.Hour))
	if c, err := p.Certificate(nil); err != nil || c.Leaf.SerialNumber.Int64() != 1 {
		t.Errorf("read at once, for each client: %v", err)
	}
	serves(2)
	must(t, os.Chmod(f.key, 0o644))
	must(t, os.Chtimes(f.key, at.Add(time.Minute), at.Add(time.Minute)))
	serves(2)
	serves(2)
	must(t, os.Remove(f.cert))
	serves(2)
	if len(heard) == 0 || len(heard) > 2 || !strings.Contains(heard[0].Error(), "others can read") {
		t.Errorf("%v", heard)
	}
	f.make(3, name, at.Add(-time.Hour), at.Add(time.Hour))
	serves(3)
	at = at.Add(2 * time.Hour)
	if _, err := p.Certificate(nil); err == nil {
		t.Error("a certificate that is over is served")
	}
}
