package registry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
	"palyra/internal/wasm"
)

// checkWithin bounds the compiling of all modules of a package.
const checkWithin = 5 * time.Minute

// kindOf is how the module of a tool is spoken to, and what of it the tool is.
func kindOf(t skill.ToolSpec) (wasm.Kind, string) {
	if t.Export != "" {
		return wasm.Export, t.Export
	}
	return wasm.Command, t.Name
}

// shape is a module in the way in which tools use it.
type shape struct {
	module string
	kind   wasm.Kind
}

// checkModules has the runtime compile every module of a package, and look at what it imports and exports. Nothing of a
// module runs. Where there is no runtime nothing with modules can be installed: nobody could say what is in them.
func (r *Registry) checkModules(ctx context.Context, p *archive.Package) error {
	if abi := p.Manifest.ABI; abi != "" && abi != wasm.ABI {
		return palyra.Errorf(palyra.Invalid, skill.ReasonABI,
			"its modules are made for %s, and what is offered here is %s; nothing was installed", abi, wasm.ABI).
			WithRemedy("have its publisher build it for %s, or install a Palyra that offers %s", wasm.ABI, abi)
	}
	functions := map[shape][]string{}
	for _, t := range p.Manifest.Tools {
		kind, function := kindOf(t)
		s := shape{t.Module, kind}
		if functions[s] = append(functions[s], function); kind == wasm.Command {
			functions[s] = []string{} // it has one way in, whatever the tools are called
		}
	}
	if len(functions) == 0 {
		return nil
	}
	if r.Runtime == nil {
		return noRuntime()
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	for _, s := range slices.SortedFunc(maps.Keys(functions), func(a, b shape) int {
		return cmp.Or(cmp.Compare(a.module, b.module), cmp.Compare(a.kind, b.kind))
	}) {
		binary := p.Files[s.module]
		m := wasm.Module{Digest: palyra.SumBytes(binary), Bytes: func() ([]byte, error) { return binary, nil }}
		if err := r.Runtime.Check(ctx, m, s.kind, functions[s], wasm.Limits{}); err != nil {
			e := palyra.AsError(err)
			return palyra.Errorf(e.Code, e.Reason, "%s: %s; nothing was installed", s.module, e.Text).WithRemedy("%s", e.Remedy).WithCause(err)
		}
	}
	return nil
}

func noRuntime() error {
	return palyra.Errorf(palyra.Unavailable, skill.ReasonNoRuntime, "this daemon has no runtime for modules").WithRemedy("see 'palyra status'")
}
