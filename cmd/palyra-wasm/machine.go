//go:build cgo && linux

package main

import (
	"strings"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"palyra/internal/wasm/wire"
)

// runtimeName is the engine's, for attestations. A test holds its version against go.mod.
const runtimeName = "wasmtime 44.0.0"

// maxStack is for frames of compiled code, far below what a thread has.
const maxStack = 1 << 20

// machine is the engine with its one module.
type machine struct {
	engine  *wasmtime.Engine
	linker  *wasmtime.Linker
	module  *wasmtime.Module
	command bool
	now     *running // what host functions work for
	clock   alarm
}

func (m *machine) init() error {
	m.engine = wasmtime.NewEngineWithConfig(settings())
	m.linker = wasmtime.NewLinker(m.engine)
	m.clock.engine = m.engine
	for name, f := range offered() {
		module, name, _ := strings.Cut(name, ".")
		if err := m.linker.FuncNew(module, name, f.typ(), m.serve(f)); err != nil {
			return err
		}
	}
	return nil
}

// settings switch on what compilers of the usual languages need, and nothing else: what is young has the holes.
func settings() *wasmtime.Config {
	c := wasmtime.NewConfig()
	c.SetConsumeFuel(true)
	c.SetEpochInterruption(true)
	c.SetMaxWasmStack(maxStack)
	c.SetWasmThreads(false)
	c.SetWasmMultiMemory(false)
	c.SetWasmMemory64(false)
	c.SetWasmTailCall(false)
	c.SetWasmFunctionReferences(false)
	c.SetWasmGC(false)
	c.SetGCSupport(false)
	c.SetWasmRelaxedSIMD(false)
	c.SetWasmWideArithmetic(false)
	c.SetCraneliftNanCanonicalization(true) // the same input gives the same output everywhere
	c.SetNativeUnwindInfo(false)
	c.SetMemoryInitCOWSet(false) // it needs files in memory, which a cell without cgroups does not have
	return c
}

// compile makes machine code of a module, if everything that it needs is there.
func (m *machine) compile(binary []byte, c wire.Compile) ([]byte, error) {
	if len(binary) > wire.MaxModule {
		return nil, stopf("wasm_too_large", "the module has %d bytes", len(binary))
	}
	mod, err := wasmtime.NewModule(m.engine, binary)
	if err != nil {
		return nil, stopf("wasm_bad_module", "%s", firstLine(err))
	}
	defer mod.Close()
	if err := imports(mod); err != nil {
		return nil, err
	}
	if err := exports(mod, needs(c)); err != nil {
		return nil, err
	}
	b, err := mod.Serialize()
	if err != nil {
		return nil, stopf("wasm_compile", "%s", firstLine(err))
	}
	return b, nil
}

// load takes a compiled module from the daemon, which vouches for it.
func (m *machine) load(compiled []byte, l wire.Load) error {
	if m.module != nil {
		return stopf("wasm_bad_module", "the worker has a module")
	}
	mod, err := wasmtime.NewModuleDeserialize(m.engine, compiled)
	if err != nil {
		return stopf("wasm_bad_module", "%s", firstLine(err))
	}
	m.module, m.command = mod, l.Command
	return nil
}

// imports refuses what is not offered.
func imports(mod *wasmtime.Module) error {
	all := offered()
	for _, i := range mod.Imports() {
		name := i.Module() + "."
		if i.Name() != nil {
			name += *i.Name()
		}
		ft := i.Type().FuncType()
		if ft == nil {
			return stopf("wasm_import", "the module imports %q, which is no function: memories, tables and globals are its own", name)
		}
		f, ok := all[name]
		if !ok {
			return stopf("wasm_import", "the module imports %q, which is not offered", name)
		}
		if have := signature(ft); have != f.sig {
			return stopf("wasm_import", "the module imports %q as %s, and it is %s", name, have, f.sig)
		}
	}
	return nil
}

// memoryExport stands for the type of a memory.
const memoryExport = "memory"

// needs is what a module must export, by name.
func needs(c wire.Compile) map[string]string {
	if c.Command {
		return map[string]string{memoryExport: memoryExport, "_start": ":"}
	}
	all := map[string]string{memoryExport: memoryExport, allocName: "i:i"}
	for _, f := range c.Functions {
		all[f] = "ii:I"
	}
	return all
}

func exports(mod *wasmtime.Module, want map[string]string) error {
	have := map[string]string{}
	for _, e := range mod.Exports() {
		if ft := e.Type().FuncType(); ft != nil {
			have[e.Name()] = signature(ft)
		} else if e.Type().MemoryType() != nil {
			have[e.Name()] = memoryExport
		}
	}
	for name, sig := range want {
		switch got, ok := have[name]; {
		case !ok:
			return stopf("wasm_export", "the module does not export %q", name)
		case got != sig:
			return stopf("wasm_export", "the module exports %q as %s, and it must be %s", name, got, sig)
		}
	}
	return nil
}

// letters stand for types of values in signatures.
var letters = map[wasmtime.ValKind]string{wasmtime.KindI32: "i", wasmtime.KindI64: "I", wasmtime.KindF32: "f", wasmtime.KindF64: "F"}

// signature writes a type as "iI:i": parameters and results.
func signature(t *wasmtime.FuncType) string {
	var b strings.Builder
	for i, list := range [][]*wasmtime.ValType{t.Params(), t.Results()} {
		if i > 0 {
			b.WriteByte(':')
		}
		for _, v := range list {
			if l, ok := letters[v.Kind()]; ok {
				b.WriteString(l)
			} else {
				b.WriteByte('r')
			}
		}
	}
	return b.String()
}

func firstLine(err error) string {
	text := strings.TrimSpace(err.Error())
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", " ")), " ")
}
