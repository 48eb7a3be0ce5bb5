// Package engine runs modules in workers, as internal/wasm promises.
//
// Words: an artifact is a module in the machine's own code, as a worker compiled it. A worker that compiles does nothing
// else and ends; so a module whose compilation takes a worker over can spoil no artifact but its own. Artifacts lie in
// memory and on disk; those on disk are sealed with a key of the daemon, and what is not as it was sealed is never given to
// a worker. An exchange is the daemon's side of one invocation: its handles, its quotas, and what it used.
//
// A worker has one module, and one invocation at a time. What it says is believed as far as it harms only its own
// invocation: what was granted, used and counted is the daemon's own record.
//
// Its words are those of docs/words.md.
package engine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"palyra"
	"palyra/internal/wasm"
)

// Starter starts processes of palyra-wasm.
type Starter interface {
	// Ready says why none can be started; nil: they can.
	Ready() error
	// Start starts one that may have so many bytes of memory. The context bounds the start.
	Start(ctx context.Context, memory int64) (*Process, error)
}

// Process is a process of palyra-wasm.
type Process struct {
	In   *os.File        // to its stdin
	Out  *os.File        // from its stdout
	Kill func(string)    // ends it, and does not wait
	Done <-chan struct{} // closed when nothing of it is left
	// Limit names the limit that ended it, once it is done; empty: none did.
	Limit func() string
}

// What every process of palyra-wasm may have besides memory. Threads are those of Go and of the compiler; a worker lives
// long, so its time on the processor only bounds what nothing else does.
const (
	tasks = 64
	cpu   = 24 * time.Hour
)

// Needs are the limits of a process of palyra-wasm that may have so many bytes of memory.
func Needs(memory int64) palyra.Limits {
	return palyra.Limits{MemoryBytes: memory, Processes: tasks, CPUMS: cpu.Milliseconds()}
}

// Program is a started program, as the sandbox has it.
type Program interface {
	Kill(reason string)
	Done() <-chan struct{}
	Streams() (in, out *os.File)
	Limit() string
}

// Cell makes a Process of a program, or passes on the error of starting it.
func Cell[P Program](p P, err error) (*Process, error) {
	if err != nil {
		return nil, err
	}
	in, out := p.Streams()
	return &Process{In: in, Out: out, Kill: p.Kill, Done: p.Done(), Limit: p.Limit}, nil
}

// Config is what an Engine needs.
type Config struct {
	Starter Starter
	Runtime string        // digest of palyra-wasm: artifacts of another one are not used
	Dir     string        // of artifacts on disk; it is private. Empty: there are none
	Key     []byte        // that seals them
	Workers int           // at work at most; 0: 16
	Keep    int           // idle workers that are kept; 0: 4
	Idle    time.Duration // for so long; 0: a minute
	Grace   time.Duration // for a worker to say that its deadline has come; 0: a second
	Log     *slog.Logger
}

func (c *Config) fill() {
	if c.Workers == 0 {
		c.Workers = 16
	}
	if c.Keep == 0 {
		c.Keep = 4
	}
	if c.Idle == 0 {
		c.Idle = time.Minute
	}
	if c.Grace == 0 {
		c.Grace = time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Engine is the runtime. It is safe for concurrent use.
type Engine struct {
	Config
	pool  pool
	cache cache
	slots chan struct{} // workers at work
	build sync.Mutex    // one module is compiled at a time

	ctx  context.Context
	quit context.CancelFunc
	work sync.WaitGroup
}

// New returns a runtime.
func New(c Config) (*Engine, error) {
	c.fill()
	if c.Starter == nil || (c.Dir != "" && len(c.Key) < keySize) {
		return nil, errors.New("engine: new: no starter, or no key for artifacts")
	}
	e := &Engine{Config: c, slots: make(chan struct{}, c.Workers)}
	e.ctx, e.quit = context.WithCancel(context.Background())
	e.cache.init(c)
	e.pool.init(e)
	return e, nil
}

var _ wasm.Runner = (*Engine)(nil)

// Ready implements wasm.Runner.
func (e *Engine) Ready() error {
	if err := e.Starter.Ready(); err != nil {
		return NotReady(err)
	}
	return nil
}

// NotReady says that skills are off, and why.
func NotReady(err error) error {
	why := palyra.AsError(err)
	return palyra.Errorf(palyra.Unavailable, wasm.ReasonNoRuntime, "skills are off: %s", why.Text).WithRemedy("%s", why.Remedy).WithCause(err)
}

// Close ends every worker, and waits for that.
func (e *Engine) Close() error {
	e.quit()
	e.pool.close()
	e.work.Wait()
	return nil
}

// Check implements wasm.Runner.
func (e *Engine) Check(ctx context.Context, m wasm.Module, k wasm.Kind, functions []string, l wasm.Limits) error {
	if err := e.Ready(); err != nil {
		return err
	}
	l = filled(l)
	binary, err := bytesOf(m, l.Module)
	if err != nil {
		return err
	}
	e.build.Lock()
	defer e.build.Unlock()
	if k == wasm.Command && e.cache.get(key{m.Digest, k}) != nil {
		return nil // it was compiled for this runtime, and has no functions but its start
	}
	a, err := e.compile(ctx, binary, k, functions, l.Compile)
	if err != nil {
		return err
	}
	e.cache.put(key{m.Digest, k}, a)
	return nil
}

// Run implements wasm.Runner.
func (e *Engine) Run(ctx context.Context, i wasm.Invocation) (wasm.Result, error) {
	i.Limits = filled(i.Limits)
	s := newExchange(i)
	if err := s.check(); err != nil {
		return s.result(), err
	}
	if err := e.Ready(); err != nil {
		return s.result(), err
	}
	if err := e.enter(ctx); err != nil {
		return s.result(), err
	}
	defer e.leave()
	w, err := e.worker(ctx, i)
	if err != nil {
		return s.result(), err
	}
	began := time.Now()
	err = w.run(ctx, s)
	s.res.Took = time.Since(began)
	if w.usable() {
		e.pool.give(w)
	}
	return s.result(), err
}

// busyFor is how long an invocation waits for others to end.
const busyFor = 10 * time.Second

// enter waits until fewer workers are at work than may be.
func (e *Engine) enter(ctx context.Context) error {
	select {
	case e.slots <- struct{}{}:
		return nil
	default:
	}
	late := time.NewTimer(busyFor)
	defer late.Stop()
	select {
	case e.slots <- struct{}{}:
		return nil
	case <-late.C:
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonBusy, "%d modules are at work, and none of them ended", e.Workers).
			WithRemedy("call it again later")
	case <-ctx.Done():
		return cancelled(ctx)
	case <-e.ctx.Done():
		return stopping()
	}
}

func (e *Engine) leave() { <-e.slots }

func stopping() error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is stopping")
}

// cancelled is the end of an invocation whose caller does not wait any more.
func cancelled(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonTimedOut, "the call's time was over").WithCause(ctx.Err())
	}
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonCancelled, "the call was cancelled").WithCause(ctx.Err())
}

// worker returns one with the module of an invocation.
func (e *Engine) worker(ctx context.Context, i wasm.Invocation) (*worker, error) {
	k := poolKey{key{i.Module.Digest, i.Kind}, i.Limits.Memory}
	if w := e.pool.take(k); w != nil {
		return w, nil
	}
	a, err := e.artifact(ctx, i)
	if err != nil {
		return nil, err
	}
	w, err := e.start(ctx, i.Limits.Memory+3*int64(len(a))+workerMemory)
	if err != nil {
		return nil, err
	}
	w.key = k
	if err := w.load(ctx, a, i.Kind); err != nil {
		w.kill("not used")
		return nil, err
	}
	return w, nil
}

// artifact returns the compiled form of a module: one that is kept, or a new one.
func (e *Engine) artifact(ctx context.Context, i wasm.Invocation) ([]byte, error) {
	k := key{i.Module.Digest, i.Kind}
	if a := e.cache.get(k); a != nil {
		return a, nil
	}
	binary, err := bytesOf(i.Module, i.Limits.Module)
	if err != nil {
		return nil, err
	}
	e.build.Lock()
	defer e.build.Unlock()
	if a := e.cache.get(k); a != nil { // somebody else compiled it meanwhile
		return a, nil
	}
	var functions []string
	if i.Kind == wasm.Export {
		functions = []string{i.Function}
	}
	a, err := e.compile(ctx, binary, i.Kind, functions, i.Limits.Compile)
	if err == nil {
		e.cache.put(k, a)
	}
	return a, err
}

// compile has a worker of its own compile a module.
func (e *Engine) compile(ctx context.Context, binary []byte, k wasm.Kind, functions []string, within time.Duration) ([]byte, error) {
	w, err := e.start(ctx, compileMemory)
	if err != nil {
		return nil, err
	}
	defer w.kill("compiled")
	return w.compile(ctx, binary, k, functions, within)
}
