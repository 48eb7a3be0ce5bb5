//go:build cgo && linux

package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"palyra/internal/wasm/wire"
)

// Names of the ABI of exports.
const (
	allocName = "palyra_alloc"
	initName  = "_initialize"
)

// maxTables is the most tables of an instance: compilers make one.
const maxTables = 8

// alarm interrupts an invocation at its deadline.
type alarm struct {
	engine *wasmtime.Engine
	mu     sync.Mutex
	turn   int
}

// set arms it, for the next invocation only; quit ends that.
func (a *alarm) set(after time.Duration) (quit func()) {
	a.mu.Lock()
	turn := a.turn
	a.mu.Unlock()
	t := time.AfterFunc(after, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.turn == turn {
			a.engine.IncrementEpoch()
		}
	})
	return func() {
		t.Stop()
		a.mu.Lock()
		a.turn++
		a.mu.Unlock()
	}
}

// running is one invocation.
type running struct {
	w        *worker
	store    *wasmtime.Store
	order    wire.Invoke
	input    []byte
	deadline time.Time

	read    int // of the input
	output  []byte
	logs    []byte
	cut     bool
	exited  bool
	exit    int32
	stop    *stop // why a host function ended it
	broken  error // the daemon is gone
	denied  []wire.Handle
	pending []byte // the last result of a host call
	readings,
	randoms int64
	logical time.Duration // of the clock that stands for the real one
	noise   cipher.Stream
}

// run makes one invocation and answers. An error means that the daemon is gone.
func (w *worker) run(order wire.Invoke, input []byte) error {
	if w.module == nil {
		return errors.New("a run before a module")
	}
	r := &running{w: w, order: order, input: input, deadline: time.Now().Add(time.Duration(order.MicroS) * time.Microsecond)}
	if err := r.seed(); err != nil {
		return err
	}
	quit := w.clock.set(time.Until(r.deadline))
	defer quit()
	r.store = wasmtime.NewStore(w.engine)
	defer r.store.Close()
	r.store.Limiter(order.Memory, int64(order.Table), int64(order.Instances), maxTables, 1)
	r.store.SetEpochDeadline(1)
	if err := r.store.SetFuel(order.Fuel); err != nil {
		return err
	}
	w.now = r
	memory, err := r.work()
	w.now = nil
	if r.broken != nil {
		return r.broken
	}
	return r.finish(memory, err)
}

// seed makes what stands for randomness where none was granted: the same for the same module and input.
func (r *running) seed() error {
	sum := sha256.Sum256(r.order.Seed)
	block, err := aes.NewCipher(sum[:])
	if err == nil {
		r.noise = cipher.NewCTR(block, make([]byte, aes.BlockSize))
	}
	return err
}

// work runs the instance, and returns how much memory it has at the end.
func (r *running) work() (memory int64, err error) {
	inst, err := r.w.linker.Instantiate(r.store, r.w.module)
	if err != nil {
		return 0, r.why(err, 0)
	}
	ext := inst.GetExport(r.store, memoryExport)
	if ext == nil || ext.Memory() == nil {
		return 0, stopf("wasm_export", "the module does not export %q", memoryExport)
	}
	mem := ext.Memory()
	if r.w.command {
		err = r.call(inst, "_start")
	} else {
		err = r.exported(inst, mem)
	}
	memory = int64(mem.DataSize(r.store))
	return memory, r.why(err, memory)
}

func (r *running) call(inst *wasmtime.Instance, name string) error {
	f := inst.GetFunc(r.store, name)
	if f == nil {
		return stopf("wasm_export", "the module does not export %q", name)
	}
	_, err := f.Call(r.store)
	return err
}

// exported calls the function with the input, and takes its output.
func (r *running) exported(inst *wasmtime.Instance, mem *wasmtime.Memory) error {
	alloc, f := inst.GetFunc(r.store, allocName), inst.GetFunc(r.store, r.order.Function)
	if alloc == nil || f == nil {
		return stopf("wasm_export", "the module does not export %q", r.order.Function)
	}
	if inst.GetFunc(r.store, initName) != nil {
		if err := r.call(inst, initName); err != nil {
			return err
		}
	}
	at, err := alloc.Call(r.store, int32(len(r.input)))
	if err != nil {
		return err
	}
	p, _ := at.(int32)
	room, err := view(mem.UnsafeData(r.store), uint32(p), uint32(len(r.input)))
	if err != nil {
		return err
	}
	copy(room, r.input)
	out, err := f.Call(r.store, p, int32(len(r.input)))
	if err != nil {
		return err
	}
	where, ok := out.(int64)
	if !ok {
		return stopf("wasm_export", "%q does not return where its output is", r.order.Function)
	}
	if n := int64(uint32(where)); n > r.order.Output {
		return outputLimit(r.order.Output)
	}
	b, err := view(mem.UnsafeData(r.store), uint32(uint64(where)>>32), uint32(where))
	r.output = append(r.output, b...)
	return err
}

func outputLimit(n int64) *stop {
	return stopf("wasm_output", "the output is longer than %d bytes", n)
}

// texts of the runtime by which its limits are known; there are no codes for them.
var limitTexts = []struct{ text, reason string }{
	{"memory minimum size", "wasm_memory"},
	{"table minimum size", "wasm_table"},
	{"instance count too high", "wasm_instances"},
	{"memory count too high", "wasm_memory"},
	{"table count too high", "wasm_table"},
}

// why names the end of an invocation.
func (r *running) why(err error, memory int64) error {
	var s *stop
	var trap *wasmtime.Trap
	switch {
	case err == nil || r.exited:
		return r.exitCode(memory)
	case r.stop != nil:
		return r.stop
	case errors.As(err, &s):
		return s
	case errors.As(err, &trap) && trap.Code() != nil:
		return r.trapped(*trap.Code(), err, memory)
	}
	for _, l := range limitTexts {
		if strings.Contains(err.Error(), l.text) {
			return stopf(l.reason, "%s", firstLine(err))
		}
	}
	return stopf("wasm_trap", "%s", firstLine(err))
}

func (r *running) trapped(code wasmtime.TrapCode, err error, memory int64) error {
	switch code {
	case wasmtime.OutOfFuel:
		return stopf("wasm_fuel", "the module used its fuel of %d", r.order.Fuel)
	case wasmtime.Interrupt:
		return r.late()
	case wasmtime.StackOverflow:
		return stopf("wasm_stack", "the module called itself too deeply")
	}
	if s := r.full(memory); s != nil {
		return s
	}
	return stopf("wasm_trap", "%s", firstLine(err))
}

func (r *running) late() *stop {
	return stopf("wasm_deadline", "the module did not end within %s", time.Duration(r.order.MicroS)*time.Microsecond)
}

// full names the limit of memory as the reason of a failure. The runtime does not say that it refused to grow, but a
// module that has more than half of what it may have, and gives up, was most likely refused the other half.
func (r *running) full(memory int64) *stop {
	if 2*memory < r.order.Memory {
		return nil
	}
	return stopf("wasm_memory", "the module gave up with %d of at most %d bytes of memory", memory, r.order.Memory)
}

// exitCode is the end of a command that ended itself.
func (r *running) exitCode(memory int64) error {
	if r.exit == 0 {
		return nil
	}
	if s := r.full(memory); s != nil {
		return s
	}
	return stopf("wasm_exit", "the module ended with exit code %d", r.exit)
}

// finish answers.
func (r *running) finish(memory int64, err error) error {
	left, _ := r.store.GetFuel()
	d := wire.Done{
		Exit: r.exit, Fuel: r.order.Fuel - min(left, r.order.Fuel), Memory: memory, Output: int64(len(r.output)), Cut: r.cut,
		Clock: r.readings, Random: r.randoms, Denied: r.denied,
	}
	if err != nil {
		s := stopOf(err)
		d.Reason, d.Text = s.reason, s.text
	}
	return wire.Write(r.w.out, wire.KindDone, d, r.output, r.logs)
}

// burn charges fuel for what is done outside of the instance.
func (r *running) burn(n uint64) error {
	left, err := r.store.GetFuel()
	if err != nil {
		return err
	}
	if left <= n {
		_ = r.store.SetFuel(0)
		return stopf("wasm_fuel", "the module used its fuel of %d", r.order.Fuel)
	}
	return r.store.SetFuel(left - n)
}

// log keeps what is logged, up to a limit.
func (r *running) log(b []byte) {
	room := int(r.order.Logs) - len(r.logs)
	if len(b) > room {
		b, r.cut = b[:max(0, room)], true
	}
	r.logs = append(r.logs, b...)
}
