// Package keyring keeps the daemon's own signing keys: one Ed25519 key for the journal, one for attestations.
//
// A private key is a file of its owner alone (PKCS#8 in PEM, 0600 in a 0700 directory) or a systemd credential; an
// operator may move the one for attestations into the vault. It leaves this package only as signatures, and to the
// vault. The public halves, also of retired keys, stand in a table; every key but
// the first of its use is signed by the one before it, so that whoever trusts one key can follow the chain to the
// next.
//
// Words: a Ring holds the keys; a Signer is one key, fixed for life; a key id is the first 16 hex digits of the
// SHA-256 of the 32 public key bytes; a trust file is the public history as JSON.
//
// Promises: a key file that others could have read or put there is refused; a key is never replaced without a
// signed line in the journal; a crash at any point of a rotation leaves exactly one of the two keys in force, and
// the table says which. The package does not protect against a process that runs under the same uid and reads the
// files.
//
// Its words are those of docs/words.md.
package keyring

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"palyra"
	"palyra/internal/durable"
	"palyra/internal/fault"
	"palyra/internal/store"
)

// The uses of keys.
const (
	Journal     = palyra.KeyJournal
	Attestation = palyra.KeyAttestation
)

// Uses lists every use once.
func Uses() []palyra.KeyUse { return []palyra.KeyUse{Journal, Attestation} }

// Config says where the keys are.
type Config struct {
	Dir         string // made when missing; must be the owner's alone
	Credentials string // optional: $CREDENTIALS_DIRECTORY; a key found there is used instead of Dir's and never written
	Name        string // stem of note key names, such as "palyra/01J…"; a key keeps the name it was made with
	DB          *store.DB
	Now         func() time.Time
}

// Ring holds the daemon's keys.
type Ring struct {
	cfg   Config
	turn  chan struct{} // held while files and table change
	point func(string)  // names a moment for fault tests

	mu        sync.Mutex // guards the fields below; a leaf lock
	signers   map[palyra.KeyUse]*Signer
	vault     Vault // nil: no key can be in it
	history   []TrustKey
	journal   store.Recorder
	listeners []func(use palyra.KeyUse)
}

// Open reads the keys, makes those that never existed, and finishes a rotation that a crash cut short. It writes no
// journal line, because the journal needs a key first: call Attach once the journal is open.
func Open(ctx context.Context, cfg Config) (*Ring, error) {
	if cfg.Dir == "" || cfg.DB == nil || cfg.Now == nil || !validName(cfg.Name) {
		return nil, errors.New("keyring: open: the configuration is incomplete")
	}
	if err := durable.PrivateDir(cfg.Dir); err != nil {
		return nil, explain(err)
	}
	r := &Ring{cfg: cfg, turn: make(chan struct{}, 1), point: fault.Point, signers: map[palyra.KeyUse]*Signer{}}
	for _, use := range Uses() {
		if err := r.load(ctx, use); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// load brings the ring in line with table and files for one use.
func (r *Ring) load(ctx context.Context, use palyra.KeyUse) error {
	rows, err := readHistory(ctx, r.cfg.DB)
	if err != nil {
		return err
	}
	s, err := r.settle(use, current(rows, use))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := slices.DeleteFunc(r.history, func(k TrustKey) bool { return k.recorded })
	for _, k := range fresh { // made, not yet in the table
		if current(rows, k.Use) == nil {
			rows = append(rows, k)
		}
	}
	if current(rows, use) == nil {
		rows = append(rows, TrustKey{Key: s.key(r.cfg.Now())})
	}
	r.signers[use], r.history = s, rows
	return nil
}

// settle finds the key in force. The table decides; the files follow it:
//
//	table has none, file has one      the file's key; Attach records it
//	table has none, no file           a new key
//	table names the file's key        the normal case; a staged key is dropped: its rotation did not happen
//	table names the staged key        the rotation happened, the file move did not: move it now
//	table names a key, there is no file  the vault's, if it can be there; it is asked for when it is needed
//	anything else                     refused: the chain would break
func (r *Ring) settle(use palyra.KeyUse, onRecord *TrustKey) (*Signer, error) {
	pl, err := r.place(use)
	if err != nil {
		return nil, err
	}
	name := r.cfg.Name + "/" + string(use)
	if onRecord != nil {
		name = verifierName(onRecord.Verifier)
	}
	held, err := pl.held()
	if err != nil {
		return nil, err
	}
	if onRecord == nil {
		if first, inFile := pl.(files); held == nil && inFile {
			held, err = first.create()
		}
		return newSigner(use, name, held), err
	}
	if held != nil && KeyID(public(held)) == onRecord.ID {
		return newSigner(use, name, held), pl.drop()
	}
	staged, err := pl.next()
	if err != nil {
		return nil, err
	}
	if staged != nil && KeyID(public(staged)) == onRecord.ID {
		if err := pl.promote(); err != nil {
			return nil, err
		}
		return newSigner(use, name, staged), pl.drop()
	}
	if r.absent(use, held, staged) {
		return r.late(*onRecord)
	}
	return nil, other(use, pl, onRecord.ID)
}

// other is the error of a place whose key is not the one on record.
func other(use palyra.KeyUse, pl place, id string) error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonConfig, "the %s key in %s is not key %s, which the state has on record", use,
		pl.name(), id).
		WithRemedy("restore the key file that belongs to this state, or begin a new state on purpose: palyra up --new-state, which " +
			"keeps this one beside it")
}

// place chooses where the key of a use lives.
func (r *Ring) place(use palyra.KeyUse) (place, error) {
	if r.cfg.Credentials != "" {
		pl := files{dir: r.cfg.Credentials, use: use, credential: true}
		if pl.present() {
			return pl, checkCredentials(pl.dir)
		}
	}
	pl := files{dir: r.cfg.Dir, use: use}
	if err := durable.CheckPrivate(r.cfg.Dir); err != nil {
		return pl, explain(err)
	}
	if there, err := r.inVault(use); err != nil || !there || pl.present() { // a file that is there counts
		return pl, err
	}
	return shelf{r.vault, use}, nil
}

// Signer returns the key in force for a use; nil for an unknown use. It stays
// the same key after a rotation: fetch it anew for each piece of work.
func (r *Ring) Signer(use palyra.KeyUse) *Signer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.signers[use]
}

// List returns every key, retired ones too, oldest first.
func (r *Ring) List() []palyra.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := make([]palyra.Key, 0, len(r.history))
	for _, k := range r.history {
		keys = append(keys, k.Key)
	}
	return keys
}

// Verifiers lists the verifier lines of every key of a use, retired ones too.
func (r *Ring) Verifiers(use palyra.KeyUse) []string {
	var lines []string
	for _, k := range r.List() {
		if k.Use == use {
			lines = append(lines, k.Verifier)
		}
	}
	return lines
}

// Path returns the file the key of a use is read from, or says that it is in the vault.
func (r *Ring) Path(use palyra.KeyUse) string {
	pl, _ := r.place(use)
	return pl.name()
}

// Format implements fmt.Formatter: a ring prints as where it is.
func (r *Ring) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "keyring %s", filepath.Clean(r.cfg.Dir))
}

func newKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("keyring: make key: %w", err)
	}
	return key, nil
}
