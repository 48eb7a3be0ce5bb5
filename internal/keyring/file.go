package keyring

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"palyra"
	"palyra/internal/durable"
)

const (
	maxKeyFile = 4096
	pemType    = "PRIVATE KEY"
)

// place is where the key of one use lives, and beside it the next one while a rotation is on its way.
type place interface {
	// name is what people know it by.
	name() string
	// held returns the key, nil when there is none.
	held() (ed25519.PrivateKey, error)
	// next returns the key that is prepared, nil when there is none.
	next() (ed25519.PrivateKey, error)
	// stage prepares the next key. The key in force is untouched.
	stage() (ed25519.PrivateKey, error)
	// promote puts the staged key in the place of the old one, whose private half is gone with that.
	promote() error
	// drop removes what is left of a rotation that did not happen.
	drop() error
}

// files is a place in files: <dir>/<use>.key and <use>.key.next. In a credential directory, which nobody writes, the
// operator puts both.
type files struct {
	dir        string
	use        palyra.KeyUse
	credential bool
}

func (p files) file() string   { return filepath.Join(p.dir, string(p.use)+".key") }
func (p files) staged() string { return p.file() + ".next" }

func (p files) name() string { return p.file() }

func (p files) held() (ed25519.PrivateKey, error) { return p.read(p.file()) }

func (p files) next() (ed25519.PrivateKey, error) { return p.read(p.staged()) }

func (p files) present() bool {
	for _, path := range []string{p.file(), p.staged()} {
		if _, err := os.Lstat(path); err == nil {
			return true
		}
	}
	return false
}

// create makes the first key of a use. Credentials are the operator's to give.
func (p files) create() (ed25519.PrivateKey, error) {
	if p.credential {
		return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonConfig, "the credential %s.key is missing", p.use).
			WithRemedy("give the service both credentials, %s.key and %s.key.next", p.use, p.use)
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	if err := writeKey(p.file(), key); err != nil {
		return nil, err
	}
	return key, nil
}

// stage implements place.
func (p files) stage() (ed25519.PrivateKey, error) {
	if p.credential {
		return p.read(p.staged())
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	return key, writeKey(p.staged(), key)
}

// promote implements place.
func (p files) promote() error {
	if p.credential {
		return nil
	}
	if err := os.Rename(p.staged(), p.file()); err != nil {
		return fmt.Errorf("keyring: move key into place: %w", err)
	}
	if err := durable.SyncDir(p.dir); err != nil {
		return fmt.Errorf("keyring: move key into place: %w", err)
	}
	return nil
}

// drop implements place. It removes also the temporary file of a write that a crash
// cut short: private keys must not lie about.
func (p files) drop() error {
	if p.credential {
		return nil
	}
	left, err := filepath.Glob(filepath.Join(p.dir, "."+string(p.use)+".key*.tmp"))
	if err != nil {
		return fmt.Errorf("keyring: remove unused key: %w", err)
	}
	for _, path := range append(left, p.staged()) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keyring: remove unused key: %w", err)
		}
	}
	return nil
}

// read returns the key in a file, nil when there is no such file. The checks are made on the open file, so that it
// cannot be exchanged between check and use.
func (p files) read(path string) (ed25519.PrivateKey, error) {
	f, err := openNoFollow(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := checkFile(f, p.credential); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	defer clear(raw)
	if err != nil {
		return nil, fmt.Errorf("keyring: read key: %w", err)
	}
	return parseKey(path, raw)
}

func parseKey(path string, raw []byte) (ed25519.PrivateKey, error) {
	bad := palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "%s does not hold an Ed25519 private key", path).
		WithRemedy("restore the file from a backup; it is PKCS#8 in PEM, as 'openssl genpkey -algorithm ed25519' writes it")
	if len(raw) > maxKeyFile {
		return nil, bad
	}
	block, rest := pem.Decode(raw)
	if block == nil || block.Type != pemType || len(bytes.TrimSpace(rest)) > 0 {
		return nil, bad
	}
	defer clear(block.Bytes)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes) // its error may quote the file: not passed on
	if err != nil {
		return nil, bad
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, bad
	}
	return key, nil
}

// encodeKey is the text of a key, as files have it.
func encodeKey(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.New("keyring: write key: cannot encode")
	}
	defer clear(der)
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// writeKey makes the file whole or not at all.
func writeKey(path string, key ed25519.PrivateKey) error {
	text, err := encodeKey(key)
	if err != nil {
		return err
	}
	defer clear(text)
	if err := durable.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("keyring: write key: %w", err)
	}
	return nil
}

// explain turns durable's finding about a path into an error with a remedy.
func explain(err error) error {
	var open *durable.UnsafeError
	if errors.As(err, &open) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "keys are not safe in %s: %s", open.Path, open.Why).
			WithRemedy("%s", open.Fix)
	}
	if err != nil {
		return fmt.Errorf("keyring: open: %w", err)
	}
	return nil
}

func unsafe(path, what, remedy string) error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "%s %s", path, what).WithRemedy("%s", remedy)
}
