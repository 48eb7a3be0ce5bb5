// Package tiera puts tier A together: the engine that runs modules of skills, and the cells in which its workers are.
// Nothing of it is opened before somebody asks for it: most daemons run no skill today.
//
// Its words are those of docs/words.md.
package tiera

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"palyra"
	"palyra/internal/durable"
	"palyra/internal/store"
	"palyra/internal/wasm"
	"palyra/internal/wasm/engine"
	"palyra/internal/wasm/host"
	"palyra/internal/wasm/keys"
)

// Config is what tier A stands on.
type Config struct {
	Open   func() (Cells, error) // makes the cells of workers
	Digest string                // SHA-256 of palyra-wasm
	DB     *store.DB             // keeps what skills keep
	State  string                // the directory of the daemon's state, which is private
	Log    *slog.Logger
}

// Cells starts workers in cells.
type Cells interface {
	engine.Starter
	// Recover ends what an earlier daemon left.
	Recover(ctx context.Context) error
	Close() error
}

// NoCompiler is what to do where palyra-wasm was not built.
const NoCompiler = "install a C compiler (on Debian or Ubuntu: sudo apt-get install -y gcc libc6-dev), then build again: make build"

// Driver starts programs in cells.
type Driver[P engine.Program] interface {
	Ready() error
	Start(ctx context.Context, l palyra.Limits) (P, error)
	Recover(ctx context.Context) error
	Close() error
}

// CellsOf makes workers of a driver's programs.
func CellsOf[P engine.Program](d Driver[P]) Cells { return cellsOf[P]{d} }

type cellsOf[P engine.Program] struct{ Driver[P] }

// Start implements engine.Starter.
func (c cellsOf[P]) Start(ctx context.Context, memory int64) (*engine.Process, error) {
	return engine.Cell(c.Driver.Start(ctx, engine.Needs(memory)))
}

// TierA is tier A.
type TierA struct {
	Config
	open func() (*engine.Engine, error)

	mu     sync.Mutex
	driver Cells
	engine *engine.Engine
}

// New returns the tier.
func New(c Config) *TierA {
	t := &TierA{Config: c}
	t.open = sync.OnceValues(t.start)
	return t
}

// Names below the directory of the state.
const (
	dirName = "wasm"     // of compiled modules
	keyName = "wasm.key" // that seals them
)

// start opens the cells and the engine.
func (t *TierA) start() (*engine.Engine, error) {
	d, err := t.Config.Open()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.driver = d
	t.mu.Unlock()
	if err := d.Ready(); err != nil {
		return nil, err
	}
	if err := d.Recover(context.Background()); err != nil {
		t.Log.Warn("what an earlier daemon left of palyra-wasm cannot be ended", "err", err)
	}
	key, err := sealKey(filepath.Join(t.State, keyName))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(t.State, dirName)
	if err := durable.PrivateDir(dir); err != nil {
		return nil, err
	}
	e, err := engine.New(engine.Config{Starter: d, Runtime: t.Digest, Dir: dir, Key: key, Log: t.Log})
	t.mu.Lock()
	t.engine = e
	t.mu.Unlock()
	return e, err
}

// keySize is that of the key of compiled modules.
const keySize = 32

// sealKey reads the key of compiled modules, or makes it. It opens nothing: losing it costs compilations.
func sealKey(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err == nil && len(b) == keySize {
		return b, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b = make([]byte, keySize)
	_, _ = rand.Read(b) // never fails
	return b, durable.WriteFile(path, b, 0o600)
}

// Schema returns the tables of what skills keep.
func Schema() store.Schema { return keys.Schema() }

// Host does what the modules of a skill ask for: by gate, which calls tools for the call that they work for.
func (t *TierA) Host(skill string, gate host.Gate) wasm.Host {
	return host.New(gate, keys.New(t.DB).Of(skill))
}

// Forget removes what a skill kept.
func Forget(tx *store.Tx, skill string) error { return keys.Forget(tx, skill) }

// Runner is the runtime.
func (t *TierA) Runner() wasm.Runner { return lazy{t} }

// Feature adds to what a status says whether skills run here.
func (t *TierA) Feature(all map[string]string) map[string]string {
	text := "on"
	if err := t.Runner().Ready(); err != nil {
		e := palyra.AsError(err)
		text = e.Text + "; remedy: " + e.Remedy
	}
	all = maps.Clone(all)
	all["skills"] = text
	return all
}

// Close ends every worker, and waits for that.
func (t *TierA) Close() (err error) {
	if t == nil {
		return nil // it was never made
	}
	t.mu.Lock()
	e, d := t.engine, t.driver
	t.mu.Unlock()
	if e != nil {
		err = e.Close()
	}
	if d != nil {
		err = errors.Join(err, d.Close())
	}
	return err
}

// lazy opens the engine when it is asked.
type lazy struct{ t *TierA }

func (l lazy) engine() (*engine.Engine, error) {
	e, err := l.t.open()
	if err != nil {
		return nil, engine.NotReady(err)
	}
	return e, nil
}

// Run implements wasm.Runner.
func (l lazy) Run(ctx context.Context, i wasm.Invocation) (wasm.Result, error) {
	e, err := l.engine()
	if err != nil {
		return wasm.Result{}, err
	}
	return e.Run(ctx, i)
}

// Check implements wasm.Runner.
func (l lazy) Check(ctx context.Context, m wasm.Module, k wasm.Kind, functions []string, limits wasm.Limits) error {
	e, err := l.engine()
	if err != nil {
		return err
	}
	return e.Check(ctx, m, k, functions, limits)
}

// Ready implements wasm.Runner.
func (l lazy) Ready() error {
	_, err := l.engine()
	return err
}
