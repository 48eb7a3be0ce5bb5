package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/canon"
)

// reading takes values of a document as encoding/json would: null leaves what is
// there, and a value of another kind is an error, of which the first is kept.
type reading struct{ err error }

func (r *reading) wrong(v canon.Value, want string) {
	if r.err == nil && v.Kind() != canon.Null {
		r.err = fmt.Errorf("daemon: %s is no %s", palyra.Clip(v.Raw(), 64), want)
	}
}

func (r *reading) flag(v canon.Value, to *bool) {
	if is, ok := v.Bool(); ok {
		*to = is
	} else {
		r.wrong(v, "bool")
	}
}

func (r *reading) whole(v canon.Value, to *int64) {
	if n, ok := v.Int(); ok {
		*to = n
	} else {
		r.wrong(v, "whole number")
	}
}

// object goes through the members of an object.
func (r *reading) object(v canon.Value, member func(name string, v canon.Value)) {
	if v.Kind() != canon.Object {
		r.wrong(v, "object")
		return
	}
	for name, value := range v.Members() {
		member(name, value)
	}
}

// word reads a string. It is a copy: whoever keeps it does not keep the document.
func word[T ~string](r *reading, v canon.Value, to *T) {
	lent(r, v, to)
	*to = T(strings.Clone(string(*to)))
}

// lent reads a string that nobody keeps.
func lent[T ~string](r *reading, v canon.Value, to *T) {
	if s, ok := v.Text(); ok {
		*to = T(s)
	} else {
		r.wrong(v, "string")
	}
}

// list reads a list with a reader of its items.
func list[T any](r *reading, v canon.Value, to *[]T, item func(canon.Value, *T)) {
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

func words[T ~string](r *reading, v canon.Value, to *[]T) {
	list(r, v, to, func(one canon.Value, to *T) { word(r, one, to) })
}

// readPlan reads of a plan what policy looks at. The rest (mounts, inputs, files,
// seals, limits) is most of it, and bound by the digest like everything else.
func readPlan(v canon.Value, p *palyra.Plan) error {
	var r reading
	if v.Kind() != canon.Object {
		return errors.New("daemon: a plan is an object")
	}
	for name, v := range v.Members() {
		if !r.program(name, v, p) {
			r.terms(name, v, p)
		}
	}
	return r.err
}

// program reads a member that says what is run; false: it is another one.
func (r *reading) program(name string, v canon.Value, p *palyra.Plan) bool {
	switch name {
	case "tool":
		word(r, v, &p.Tool)
	case "arguments":
		p.Arguments = json.RawMessage(v.Raw())
	case "capabilities":
		words(r, v, &p.Capabilities)
	case "source":
		word(r, v, &p.Source)
	case "workspace":
		r.workspace(v, &p.Workspace)
	case "executable":
		r.executable(v, &p.Executable)
	case "argv":
		words(r, v, &p.Argv)
	case "cwd":
		word(r, v, &p.Cwd)
	case "env":
		list(r, v, &p.Env, r.variable)
	case "stdin":
		word(r, v, &p.Stdin)
	default:
		return false
	}
	return true
}

// terms reads a member that says on which terms it is run.
func (r *reading) terms(name string, v canon.Value, p *palyra.Plan) {
	switch name {
	case "read_only":
		r.flag(v, &p.ReadOnly)
	case "terminal":
		r.flag(v, &p.Terminal)
	case "reads":
		words(r, v, &p.Reads)
	case "writes":
		words(r, v, &p.Writes)
	case "guarded_writes":
		words(r, v, &p.Guarded)
	case "tier":
		word(r, v, &p.Tier)
	case "profile":
		word(r, v, &p.Profile)
	case "asks":
		r.flag(v, &p.Asks)
	case "unix_sockets":
		r.flag(v, &p.UnixSockets)
	case "agent_socket":
		r.flag(v, &p.AgentSocket)
	case "agent_within":
		words(r, v, &p.AgentWithin)
	case "content_not_shown":
		r.flag(v, &p.Unshown)
	case "egress":
		words(r, v, &p.Egress)
	case "bindings":
		words(r, v, &p.Bindings)
	case "enforcement":
		r.enforcement(v, &p.Enforcement)
	}
}

func (r *reading) workspace(v canon.Value, to *palyra.WorkspaceRef) {
	r.object(v, func(name string, v canon.Value) {
		switch name {
		case "path":
			word(r, v, &to.Path)
		case "owner":
			r.whole(v, &to.Owner)
		case "known":
			r.flag(v, &to.Known)
		}
	})
}

func (r *reading) executable(v canon.Value, to *palyra.Executable) {
	r.object(v, func(name string, v canon.Value) {
		switch name {
		case "path":
			word(r, v, &to.Path)
		case "digest":
			word(r, v, &to.Digest)
		case "sealed":
			r.flag(v, &to.Sealed)
		}
	})
}

func (r *reading) variable(v canon.Value, to *palyra.EnvVar) {
	r.object(v, func(name string, v canon.Value) {
		switch name {
		case "name":
			word(r, v, &to.Name)
		case "digest":
			lent(r, v, &to.Digest)
		case "value":
			lent(r, v, &to.Value)
		case "secret":
			r.flag(v, &to.Secret)
		}
	})
}

func (r *reading) enforcement(v canon.Value, to *palyra.Enforcement) {
	r.object(v, func(name string, v canon.Value) {
		switch name {
		case "mode":
			word(r, v, &to.Mode)
		case "mechanisms":
			words(r, v, &to.Mechanisms)
		case "limits":
			if v.Kind() == canon.Object {
				to.Limits = make(map[string]string, v.Len())
			}
			r.object(v, func(name string, v canon.Value) {
				var method string
				word(r, v, &method)
				to.Limits[name] = method
			})
		}
	})
}

// caller reads of a proposal who makes it, and in what.
func (r *reading) caller(name string, v canon.Value, p *palyra.Proposal) {
	switch name {
	case "principal":
		word(r, v, &p.Principal)
	case "owner":
		word(r, v, &p.Owner)
	case "session":
		word(r, v, &p.Session)
	case "run":
		word(r, v, &p.Run)
	case "parent":
		word(r, v, &p.Parent)
	case "door":
		word(r, v, &p.Door)
	case "calls_used":
		r.whole(v, &p.CallsUsed)
	case "calls_max":
		r.whole(v, &p.CallsMax)
	}
}

// readProposal reads of a proposal what policy looks at.
func readProposal(raw []byte, s *scratch) (p palyra.Proposal, err error) {
	if err := s.doc.Read(string(raw)); err != nil {
		return p, err
	}
	var r reading
	r.object(s.doc.Root(), func(name string, v canon.Value) { r.caller(name, v, &p) })
	return p, r.err
}
