package palyra

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"palyra/internal/canon"
)

// recordReader takes values of a document as encoding/json would: null leaves what is there, and a value of another
// kind is an error, of which the first is kept.
type recordReader struct{ err error }

func (r *recordReader) wrong(v canon.Value, want string) {
	if r.err == nil && v.Kind() != canon.Null {
		r.err = fmt.Errorf("palyra: %s is no %s", Clip(v.Raw(), 64), want)
	}
}

func (r *recordReader) flag(v canon.Value, to *bool) {
	if is, ok := v.Bool(); ok {
		*to = is
	} else {
		r.wrong(v, "bool")
	}
}

func (r *recordReader) whole(v canon.Value, to *int64) {
	if n, ok := v.Int(); ok {
		*to = n
	} else {
		r.wrong(v, "whole number")
	}
}

// object goes through the members of an object.
func (r *recordReader) object(v canon.Value, member func(name string, v canon.Value)) {
	if v.Kind() != canon.Object {
		r.wrong(v, "object")
		return
	}
	for name, value := range v.Members() {
		member(name, value)
	}
}

// readWord reads a string. It is a copy: whoever keeps it does not keep the document.
func readWord[T ~string](r *recordReader, v canon.Value, to *T) {
	lendWord(r, v, to)
	*to = T(strings.Clone(string(*to)))
}

// lendWord reads a string that nobody keeps.
func lendWord[T ~string](r *recordReader, v canon.Value, to *T) {
	if s, ok := v.Text(); ok {
		*to = T(s)
	} else {
		r.wrong(v, "string")
	}
}

// readList reads a list with a reader of its items.
func readList[T any](r *recordReader, v canon.Value, to *[]T, item func(canon.Value, *T)) {
	if v.Kind() != canon.List {
		r.wrong(v, "list")
		return
	}
	*to = make([]T, v.Len())
	i := 0
	for one := range v.Items() {
		item(one, &(*to)[i])
		i++
	}
}

func readWords[T ~string](r *recordReader, v canon.Value, to *[]T) {
	readList(r, v, to, func(one canon.Value, to *T) { readWord(r, one, to) })
}

// ReadJudgedPlan reads of a plan on record what policy looks at. The rest (mounts, inputs, files, seals, limits) is
// most of it, and bound by the digest like everything else.
func ReadJudgedPlan(v canon.Value, p *Plan) error {
	var r recordReader
	if v.Kind() != canon.Object {
		return errors.New("palyra: a plan is an object")
	}
	for name, v := range v.Members() {
		if !r.program(name, v, p) {
			r.terms(name, v, p)
		}
	}
	return r.err
}

// program reads a member that says what is run; false: it is another one.
func (r *recordReader) program(name string, v canon.Value, p *Plan) bool {
	switch name {
	case "tool":
		readWord(r, v, &p.Tool)
	case "arguments":
		p.Arguments = json.RawMessage(v.Raw())
	case "capabilities":
		readWords(r, v, &p.Capabilities)
	case "source":
		readWord(r, v, &p.Source)
	case "workspace":
		r.workspace(v, &p.Workspace)
	case "executable":
		r.executable(v, &p.Executable)
	case "argv":
		readWords(r, v, &p.Argv)
	case "cwd":
		readWord(r, v, &p.Cwd)
	case "env":
		readList(r, v, &p.Env, r.variable)
	case "stdin":
		readWord(r, v, &p.Stdin)
	default:
		return false
	}
	return true
}

// terms reads a member that says on which terms it is run.
func (r *recordReader) terms(name string, v canon.Value, p *Plan) {
	switch name {
	case "read_only":
		r.flag(v, &p.ReadOnly)
	case "terminal":
		r.flag(v, &p.Terminal)
	case "reads":
		readWords(r, v, &p.Reads)
	case "writes":
		readWords(r, v, &p.Writes)
	case "guarded_writes":
		readWords(r, v, &p.Guarded)
	case "tier":
		readWord(r, v, &p.Tier)
	case "profile":
		readWord(r, v, &p.Profile)
	case "asks":
		r.flag(v, &p.Asks)
	case "unix_sockets":
		r.flag(v, &p.UnixSockets)
	case "agent_socket":
		r.flag(v, &p.AgentSocket)
	case "agent_within":
		readWords(r, v, &p.AgentWithin)
	case "content_not_shown":
		r.flag(v, &p.Unshown)
	case "egress":
		readWords(r, v, &p.Egress)
	case "bindings":
		readWords(r, v, &p.Bindings)
	case "enforcement":
		r.enforcement(v, &p.Enforcement)
	}
}

func (r *recordReader) workspace(v canon.Value, to *WorkspaceRef) {
	r.object(v, func(name string, v canon.Value) {
		switch name {
		case "path":
			readWord(r, v, &to.Path)
		case "owner":
			r.whole(v, &to.Owner)
		case "known":
			r.flag(v, &to.Known)
		}
	})
}

func (r *recordReader) executable(v canon.Value, to *Executable) {
	r.object(v, func(name string, v canon.Value) {
		switch name {
		case "path":
			readWord(r, v, &to.Path)
		case "digest":
			readWord(r, v, &to.Digest)
		case "sealed":
			r.flag(v, &to.Sealed)
		}
	})
}

func (r *recordReader) variable(v canon.Value, to *EnvVar) {
	r.object(v, func(name string, v canon.Value) {
		switch name {
		case "name":
			readWord(r, v, &to.Name)
		case "digest":
			lendWord(r, v, &to.Digest)
		case "value":
			lendWord(r, v, &to.Value)
		case "secret":
			r.flag(v, &to.Secret)
		}
	})
}

func (r *recordReader) enforcement(v canon.Value, to *Enforcement) {
	r.object(v, func(name string, v canon.Value) {
		switch name {
		case "mode":
			readWord(r, v, &to.Mode)
		case "mechanisms":
			readWords(r, v, &to.Mechanisms)
		case "limits":
			if v.Kind() == canon.Object {
				to.Limits = make(map[string]Hold, v.Len())
			}
			r.object(v, func(name string, v canon.Value) {
				var method string
				readWord(r, v, &method)
				to.Limits[name] = Hold(method)
			})
		}
	})
}

// proposer reads of a proposal who makes it, and in what, as far as policy looks at it.
func (r *recordReader) proposer(name string, v canon.Value, p *Proposer) {
	switch name {
	case "principal":
		readWord(r, v, &p.Principal)
	case "owner":
		readWord(r, v, &p.Owner)
	case "session":
		readWord(r, v, &p.Session)
	case "run":
		readWord(r, v, &p.Run)
	case "parent":
		readWord(r, v, &p.Parent)
	case "door":
		readWord(r, v, &p.Surface)
	case "calls_used":
		r.whole(v, &p.CallsUsed)
	case "calls_max":
		r.whole(v, &p.CallsMax)
	}
}

// ReadProposer reads of a proposal on record who made it, and in what, as far as policy looks at it.
func ReadProposer(v canon.Value, p *Proposer) error {
	var r recordReader
	r.object(v, func(name string, v canon.Value) { r.proposer(name, v, p) })
	return r.err
}

// PlanDigest returns the digest of a plan's canonical bytes.
func PlanDigest(canonical []byte) Digest { return Digest(canon.Sum(planDomain, canonical)) }
