//go:build cgo && linux

package main

import (
	"encoding/binary"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"palyra/internal/wasm/wire"
)

// function is one that modules can import. Its work gets the memory of the instance and the arguments; an error ends the
// invocation.
type function struct {
	sig string // "iI:i": parameters and results
	do  func(r *running, mem memory, a []uint64) (uint64, error)
}

// offered is everything that modules can import.
var offered = sync.OnceValue(func() map[string]function {
	all := map[string]function{}
	for name, f := range wasi() {
		all["wasi_snapshot_preview1."+name] = f
	}
	maps.Copy(all, ours())
	maps.Copy(all, holes())
	return all
})

func (f function) typ() *wasmtime.FuncType {
	params, results, _ := strings.Cut(f.sig, ":")
	kinds := func(s string) (out []*wasmtime.ValType) {
		for _, c := range s {
			k := wasmtime.KindI32
			if c == 'I' {
				k = wasmtime.KindI64
			}
			out = append(out, wasmtime.NewValType(k))
		}
		return out
	}
	return wasmtime.NewFuncType(kinds(params), kinds(results))
}

// Fuel that host functions cost, beside what they do with bytes.
const (
	callFuel = 200   // for a function that the worker answers
	askFuel  = 5_000 // for one that the daemon is asked for
)

// serve makes a callback of a function.
func (m *machine) serve(f function) func(*wasmtime.Caller, []wasmtime.Val) ([]wasmtime.Val, *wasmtime.Trap) {
	return func(c *wasmtime.Caller, vals []wasmtime.Val) ([]wasmtime.Val, *wasmtime.Trap) {
		r := m.now
		out, err := r.serve(f, c, vals)
		if err != nil {
			r.stop = stopOf(err)
			return nil, wasmtime.NewTrap(r.stop.text)
		}
		switch _, result, _ := strings.Cut(f.sig, ":"); result {
		case "i":
			return []wasmtime.Val{wasmtime.ValI32(int32(uint32(out)))}, nil
		case "I":
			return []wasmtime.Val{wasmtime.ValI64(int64(out))}, nil
		}
		return nil, nil
	}
}

func (r *running) serve(f function, c *wasmtime.Caller, vals []wasmtime.Val) (uint64, error) {
	if err := r.burn(callFuel); err != nil {
		return 0, err
	}
	if !time.Now().Before(r.deadline) {
		return 0, r.late()
	}
	var mem memory
	if ext := c.GetExport(memoryExport); ext != nil && ext.Memory() != nil {
		mem = ext.Memory().UnsafeData(c)
	}
	args := make([]uint64, len(vals))
	for i, v := range vals {
		if v.Kind() == wasmtime.KindI64 {
			args[i] = uint64(v.I64())
		} else {
			args[i] = uint64(uint32(v.I32()))
		}
	}
	return f.do(r, mem, args)
}

// memory is that of the instance, while nothing of it runs.
type memory []byte

// view is a part of memory.
func view(mem memory, at, n uint32) ([]byte, error) {
	if uint64(at)+uint64(n) > uint64(len(mem)) {
		return nil, stopf("wasm_pointer", "%d bytes at %d are not in the module's memory of %d", n, at, len(mem))
	}
	return mem[at : uint64(at)+uint64(n)], nil
}

func (m memory) put32(at uint64, v uint32) error {
	b, err := view(m, uint32(at), 4)
	if err == nil {
		binary.LittleEndian.PutUint32(b, v)
	}
	return err
}

func (m memory) put64(at, v uint64) error {
	b, err := view(m, uint32(at), 8)
	if err == nil {
		binary.LittleEndian.PutUint64(b, v)
	}
	return err
}

// ours are the functions of palyra-skill/1. Those with a handle are asked of the daemon, which knows what it stands for.
func ours() map[string]function {
	all := map[string]function{
		"palyra.handle": {"iiii:I", (*running).handle},
		"palyra.result": {"iii:i", (*running).result},
		"palyra.clock":  {"I:I", func(r *running, _ memory, a []uint64) (uint64, error) { return r.number("clock", a) }},
		"palyra.random": {"Iii:i", (*running).random},
	}
	// the number of arguments that are bytes, and whether a number follows them
	for name, shape := range map[string]struct {
		parts  int
		number bool
	}{
		"http_request": {1, false}, "secret_use": {0, false},
		"kv_get": {1, false}, "kv_put": {2, false}, "kv_delete": {1, false}, "kv_list": {2, true},
		"tool_call": {1, false}, "log": {1, true},
	} {
		sig := "I" + strings.Repeat("ii", shape.parts)
		if shape.number {
			sig += "i"
		}
		all["palyra."+name] = function{sig + ":i", func(r *running, mem memory, a []uint64) (uint64, error) {
			return r.askFor(name, mem, a, shape.parts)
		}}
	}
	return all
}

// askFor asks the daemon, and keeps the bytes of its answer until the instance fetches them.
func (r *running) askFor(name string, mem memory, a []uint64, parts int) (uint64, error) {
	ask := wire.Ask{Function: name, Handle: int64(a[0])}
	var args [][]byte
	size := uint64(0)
	for i := range parts {
		b, err := view(mem, uint32(a[1+2*i]), uint32(a[2+2*i]))
		if err != nil {
			return 0, err
		}
		args, size = append(args, b), size+uint64(len(b))
	}
	if rest := a[1+2*parts:]; len(rest) > 0 {
		ask.Number = int64(int32(uint32(rest[0])))
	}
	answer, body, err := r.ask(ask, size, args...)
	r.pending = body
	return uint64(uint32(answer.Code)), err
}

// number asks for a number.
func (r *running) number(name string, a []uint64) (uint64, error) {
	answer, _, err := r.ask(wire.Ask{Function: name, Handle: int64(a[0])}, 0)
	return uint64(answer.Number), err
}

func (r *running) random(mem memory, a []uint64) (uint64, error) {
	room, err := view(mem, uint32(a[1]), uint32(a[2]))
	if err != nil {
		return 0, err
	}
	answer, body, err := r.ask(wire.Ask{Function: "random", Handle: int64(a[0]), Number: int64(len(room))}, 0)
	copy(room, body)
	return uint64(uint32(answer.Code)), err
}

// ask pays for a host call and makes it.
func (r *running) ask(a wire.Ask, size uint64, parts ...[]byte) (wire.Answer, []byte, error) {
	if err := r.burn(askFuel + size); err != nil {
		return wire.Answer{}, nil, err
	}
	answer, body, err := r.w.ask(a, r.order.Answer, parts...)
	if err != nil {
		r.broken = err
		return wire.Answer{}, nil, stopf("wasm_worker_broken", "the daemon is gone")
	}
	if answer.Trap != "" {
		return wire.Answer{}, nil, stopf(answer.Trap, "%s", answer.Text)
	}
	if !time.Now().Before(r.deadline) {
		return wire.Answer{}, nil, r.late()
	}
	return answer, body, r.burn(uint64(len(body)))
}

// handle looks up the number of what was granted; 0: it was not.
func (r *running) handle(mem memory, a []uint64) (uint64, error) {
	kind, err := view(mem, uint32(a[0]), uint32(a[1]))
	if err != nil {
		return 0, err
	}
	name, err := view(mem, uint32(a[2]), uint32(a[3]))
	if err != nil {
		return 0, err
	}
	for _, h := range r.order.Handles {
		if h.Kind == string(kind) && h.Name == string(name) {
			return uint64(h.Number), nil
		}
	}
	if len(r.denied) < mostDenied {
		r.denied = append(r.denied, wire.Handle{Kind: clip(string(kind)), Name: clip(string(name))})
	}
	return 0, nil
}

// mostDenied is how much of what was asked for in vain is told.
const mostDenied = 16

// result copies what the last host call returned, from an offset on, and returns how much that was.
func (r *running) result(mem memory, a []uint64) (uint64, error) {
	room, err := view(mem, uint32(a[0]), uint32(a[1]))
	if err != nil {
		return 0, err
	}
	n := copy(room, r.pending[min(uint64(len(r.pending)), a[2]):])
	return uint64(n), r.burn(uint64(n))
}
