package ca

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"palyra"
	"palyra/internal/durable"
)

const (
	keyExt   = ".key"
	mostName = 64
)

// KeyStore keeps secrets under names.
//
// Load's error has the code NotFound when there is nothing under the name and any other when that cannot be known;
// the secret is the caller's to destroy. Store replaces the value whole: after a crash, or an error, Load returns
// the old one or the new one; after nil, the new one. It must not keep s.
type KeyStore interface {
	Load(ctx context.Context, name string) (palyra.Secret, error)
	Store(ctx context.Context, name string, s palyra.Secret) error
}

// Files returns a keeper of files <dir>/<name>.key, readable by their owner only.
// What others could have read or put there is refused.
func Files(dir string) KeyStore { return &files{dir: dir} }

type files struct {
	dir string
	mu  sync.Mutex // one at a time, so that what lies about is nobody's work in progress
}

// Load implements KeyStore.
func (f *files) Load(ctx context.Context, name string) (palyra.Secret, error) {
	path, err := f.path(ctx, name)
	if err != nil {
		return palyra.Secret{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	raw, err := readPrivate(f.dir, path)
	if errors.Is(err, fs.ErrNotExist) {
		return palyra.Secret{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no key %s", path).WithCause(err)
	}
	if err != nil {
		return palyra.Secret{}, explain(err, name)
	}
	if err := f.sweep(name); err != nil {
		clear(raw)
		return palyra.Secret{}, err
	}
	return palyra.NewSecret(raw), nil
}

// Store implements KeyStore.
func (f *files) Store(ctx context.Context, name string, s palyra.Secret) error {
	path, err := f.path(ctx, name)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := durable.PrivateDir(f.dir); err != nil {
		return explain(err, name)
	}
	if err := f.sweep(name); err != nil {
		return err
	}
	err = s.Use(func(b []byte) error {
		if len(b) == 0 || len(b) > maxState {
			return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a key file holds 1 to %d bytes", maxState)
		}
		return durable.WriteFile(path, b, 0o600)
	})
	if err != nil {
		return fmt.Errorf("ca: keep: %w", err)
	}
	return nil
}

func (f *files) path(ctx context.Context, name string) (string, error) {
	if name == "" || len(name) > mostName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return "", palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a key's name has 1 to %d small letters, digits and dashes",
			mostName)
	}
	return filepath.Join(f.dir, name+keyExt), ctx.Err()
}

// sweep removes what a write that a crash cut short left behind: private keys do not lie about.
func (f *files) sweep(name string) error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("ca: keep: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "."+name+keyExt+".") || !strings.HasSuffix(e.Name(), ".tmp") {
			continue
		}
		if err := os.Remove(filepath.Join(f.dir, e.Name())); err != nil {
			return fmt.Errorf("ca: keep: %w", err)
		}
	}
	return nil
}

// readPrivate reads a file that nobody else can read or exchange. The directory
// is private too, so between check and use only we could change anything.
func readPrivate(dir, path string) ([]byte, error) {
	if err := durable.CheckPrivate(dir); err != nil {
		return nil, err
	}
	if err := durable.CheckPrivate(path); err != nil {
		return nil, err
	}
	h, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("ca: keep: %w", err)
	}
	defer func() { _ = h.Close() }()
	raw, err := io.ReadAll(io.LimitReader(h, maxState+1))
	if err == nil && (len(raw) == 0 || len(raw) > maxState) {
		err = palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "%s does not hold a key", path).WithRemedy("restore it from a backup")
	}
	if err != nil {
		clear(raw)
		return nil, fmt.Errorf("ca: keep: %w", err)
	}
	return raw, nil
}

// explain turns durable's finding about a path into an error with a remedy.
func explain(err error, name string) error {
	if open := (*durable.UnsafeError)(nil); errors.As(err, &open) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "a key of the daemon's is not safe in %s: %s", open.Path,
			open.Why).
			WithRemedy("%s; if others may have read the key: %s", open.Fix, renewal(name))
	}
	return fmt.Errorf("ca: keep: %w", err)
}

// renewal is how a key is made anew: the authority's hands over to the next one, any other is made where there is none.
func renewal(name string) string {
	if name == secretName {
		return "palyra keys rotate ca"
	}
	return "remove it instead and start the daemon again, which makes a new one"
}
