package engine

import (
	"cmp"
	"encoding/json"
	"regexp"
	"time"
	"unicode/utf8"

	"palyra"
	"palyra/internal/wasm"
)

// Memory of the processes of workers, beside that of modules and artifacts.
const (
	workerMemory  = 256 << 20
	compileMemory = 1 << 30
)

// Ceilings, whatever an invocation asks for.
const (
	maxMemory    = 1 << 30
	maxModule    = 64 << 20
	maxBytes     = 64 << 20 // of input, output, logs and host calls each
	maxDeadline  = time.Hour
	maxInstances = 64
	maxTable     = 10_000_000
	maxGrants    = 256
	maxName      = 512
)

// filled fills in what an invocation leaves open.
func filled(l wasm.Limits) wasm.Limits {
	d := wasm.Defaults()
	return wasm.Limits{
		Fuel:          cmp.Or(l.Fuel, d.Fuel),
		Memory:        min(cmp.Or(l.Memory, d.Memory), maxMemory),
		TableElements: min(cmp.Or(l.TableElements, d.TableElements), maxTable),
		Instances:     min(cmp.Or(l.Instances, d.Instances), maxInstances),
		Module:        min(cmp.Or(l.Module, d.Module), maxModule),
		Deadline:      min(cmp.Or(l.Deadline, d.Deadline), maxDeadline),
		Compile:       min(cmp.Or(l.Compile, d.Compile), maxDeadline),
		Input:         min(cmp.Or(l.Input, d.Input), maxBytes),
		Output:        min(cmp.Or(l.Output, d.Output), maxBytes),
		Logs:          min(cmp.Or(l.Logs, d.Logs), maxBytes),
		HostCalls:     cmp.Or(l.HostCalls, d.HostCalls),
		HostBytes:     min(cmp.Or(l.HostBytes, d.HostBytes), maxBytes),
	}
}

// function is the name of an export, or of a command's function.
var function = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// check refuses an invocation that cannot be begun.
func (s *exchange) check() error {
	l, g := s.i.Limits, s.i.Grants
	bad := func(format string, args ...any) error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, format, args...)
	}
	switch {
	case s.i.Kind != wasm.Command && s.i.Kind != wasm.Export:
		return bad("a module of no known kind")
	case !function.MatchString(s.i.Function):
		return bad("%q cannot be the name of a function", palyra.Clip(s.i.Function, 100))
	case l.Memory < 0 || l.TableElements < 0 || l.Instances < 0 || l.Deadline < 0 || l.Input < 0 || l.Output < 0 || l.Logs < 0 ||
		l.HostCalls < 0 || l.HostBytes < 0:
		return bad("a negative limit")
	case len(g.HTTPHosts)+len(g.Secrets)+len(g.Storage)+len(g.Tools) > maxGrants:
		return bad("more than %d grants", maxGrants)
	case int64(len(s.i.Input)) > l.Input:
		return palyra.Errorf(palyra.Exhausted, wasm.ReasonInput, "the input has %d bytes, and %d are allowed", len(s.i.Input), l.Input).
			WithRemedy("send less")
	case !json.Valid(s.i.Input):
		return bad("the input is not JSON")
	}
	for _, p := range s.res.Granted {
		if p.Name == "" != unnamed[p.Kind] || len(p.Name) > maxName || !utf8.ValidString(p.Name) {
			return bad("a grant of %s without a proper name", p.Kind)
		}
	}
	return nil
}

// unnamed are the kinds of permits of which there is one.
var unnamed = map[wasm.PermitKind]bool{wasm.Clock: true, wasm.Random: true, wasm.Log: true}

// bytesOf is the binary of a module, checked.
func bytesOf(m wasm.Module, most int64) ([]byte, error) {
	b, err := m.Bytes()
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, palyra.Errorf(palyra.Invalid, wasm.ReasonTooLarge, "the module has %d bytes, and %d are allowed", len(b), most).
			WithRemedy("make it smaller, such as by stripping its symbols, or raise the limit of the skill")
	}
	if palyra.SumBytes(b) != m.Digest {
		return nil, palyra.Errorf(palyra.Denied, wasm.ReasonDigest, "the module is not the one that was installed").
			WithRemedy("install the skill again")
	}
	return b, nil
}
