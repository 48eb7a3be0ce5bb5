package past

import (
	"encoding/json"
	"errors"

	"palyra"
	"palyra/internal/canon"
)

// recordReader reads records.
type recordReader struct{ canon.Reader }

// ReadJudgedPlan reads of a plan on record what policy looks at. The rest (mounts, inputs, files, seals, limits) is
// most of it, and bound by the digest like everything else.
func ReadJudgedPlan(v canon.Value, p *palyra.Plan) error {
	r := recordReader{}
	if v.Kind() != canon.Object {
		return errors.New("past: a plan is an object")
	}
	for name, v := range v.Members() {
		if !r.program(name, v, p) {
			r.terms(name, v, p)
		}
	}
	return r.Err()
}

// program reads a member that says what is run; false: it is another one.
func (r *recordReader) program(name string, v canon.Value, p *palyra.Plan) bool {
	switch name {
	case "tool":
		canon.ReadWord(&r.Reader, v, &p.Tool)
	case "arguments":
		p.Arguments = json.RawMessage(v.Raw())
	case "capabilities":
		canon.ReadWords(&r.Reader, v, &p.Capabilities)
	case "source":
		canon.ReadWord(&r.Reader, v, &p.Source)
	case "workspace":
		r.workspace(v, &p.Workspace)
	case "executable":
		r.executable(v, &p.Executable)
	case "argv":
		canon.ReadWords(&r.Reader, v, &p.Argv)
	case "cwd":
		canon.ReadWord(&r.Reader, v, &p.Cwd)
	case "env":
		canon.ReadList(&r.Reader, v, &p.Env, r.variable)
	case "stdin":
		canon.ReadWord(&r.Reader, v, &p.Stdin)
	default:
		return false
	}
	return true
}

// terms reads a member that says on which terms it is run.
func (r *recordReader) terms(name string, v canon.Value, p *palyra.Plan) {
	switch name {
	case "read_only":
		r.Flag(v, &p.ReadOnly)
	case "terminal":
		r.Flag(v, &p.Terminal)
	case "staging":
		r.staging(v, &p.Staging)
	case "reads":
		canon.ReadWords(&r.Reader, v, &p.Reads)
	case "writes":
		canon.ReadWords(&r.Reader, v, &p.Writes)
	case "guarded_writes":
		canon.ReadWords(&r.Reader, v, &p.Guarded)
	case "tier":
		canon.ReadWord(&r.Reader, v, &p.Tier)
	case "profile":
		canon.ReadWord(&r.Reader, v, &p.Profile)
	case "asks":
		r.Flag(v, &p.Asks)
	case "unix_sockets":
		r.Flag(v, &p.UnixSockets)
	case "agent_socket":
		r.Flag(v, &p.AgentSocket)
	case "agent_within":
		canon.ReadWords(&r.Reader, v, &p.AgentWithin)
	case "content_not_shown":
		r.Flag(v, &p.Unshown)
	case "masked":
		r.Flag(v, &p.Masked)
	case "lasting":
		r.Flag(v, &p.Lasting)
	case "egress":
		canon.ReadWords(&r.Reader, v, &p.Egress)
	case "publish":
		canon.ReadWords(&r.Reader, v, &p.Publish)
	case "bindings":
		canon.ReadWords(&r.Reader, v, &p.Bindings)
	case "signers":
		canon.ReadWords(&r.Reader, v, &p.Signers)
	case "enforcement":
		r.enforcement(v, &p.Enforcement)
	}
}

func (r *recordReader) workspace(v canon.Value, to *palyra.WorkspaceRef) {
	r.Object(v, func(name string, v canon.Value) {
		switch name {
		case "path":
			canon.ReadWord(&r.Reader, v, &to.Path)
		case "owner":
			r.Whole(v, &to.Owner)
		case "known":
			r.Flag(v, &to.Known)
		}
	})
}

func (r *recordReader) staging(v canon.Value, to *palyra.Staging) {
	r.Object(v, func(name string, v canon.Value) {
		switch name {
		case "writes":
			canon.ReadWord(&r.Reader, v, &to.Writes)
		case "why":
			canon.ReadWord(&r.Reader, v, &to.Why)
		case "review":
			r.Flag(v, &to.Review)
		case "of":
			canon.ReadWord(&r.Reader, v, &to.Of)
		}
	})
}

func (r *recordReader) executable(v canon.Value, to *palyra.Executable) {
	r.Object(v, func(name string, v canon.Value) {
		switch name {
		case "path":
			canon.ReadWord(&r.Reader, v, &to.Path)
		case "digest":
			canon.ReadWord(&r.Reader, v, &to.Digest)
		case "sealed":
			r.Flag(v, &to.Sealed)
		}
	})
}

func (r *recordReader) variable(v canon.Value, to *palyra.EnvVar) {
	r.Object(v, func(name string, v canon.Value) {
		switch name {
		case "name":
			canon.ReadWord(&r.Reader, v, &to.Name)
		case "digest":
			canon.LendWord(&r.Reader, v, &to.Digest)
		case "value":
			canon.LendWord(&r.Reader, v, &to.Value)
		case "secret":
			r.Flag(v, &to.Secret)
		}
	})
}

func (r *recordReader) enforcement(v canon.Value, to *palyra.Enforcement) {
	r.Object(v, func(name string, v canon.Value) {
		switch name {
		case "mode":
			canon.ReadWord(&r.Reader, v, &to.Mode)
		case "mechanisms":
			canon.ReadWords(&r.Reader, v, &to.Mechanisms)
		case "limits":
			if v.Kind() == canon.Object {
				to.Limits = make(map[string]palyra.Hold, v.Len())
			}
			r.Object(v, func(name string, v canon.Value) {
				var method string
				canon.ReadWord(&r.Reader, v, &method)
				to.Limits[name] = palyra.Hold(method)
			})
		}
	})
}

// proposer reads of a proposal who makes it, and in what, as far as policy looks at it.
func (r *recordReader) proposer(name string, v canon.Value, p *palyra.Proposer) {
	switch name {
	case "principal":
		canon.ReadWord(&r.Reader, v, &p.Principal)
	case "owner":
		canon.ReadWord(&r.Reader, v, &p.Owner)
	case "session":
		canon.ReadWord(&r.Reader, v, &p.Session)
	case "run":
		canon.ReadWord(&r.Reader, v, &p.Run)
	case "parent":
		canon.ReadWord(&r.Reader, v, &p.Parent)
	case "door":
		canon.ReadWord(&r.Reader, v, &p.Surface)
	case "calls_used":
		r.Whole(v, &p.CallsUsed)
	case "calls_max":
		r.Whole(v, &p.CallsMax)
	}
}

// judgedProposer reads of a proposal on record who made it, and in what, as far as policy looks at it.
func judgedProposer(v canon.Value, p *palyra.Proposer) error {
	r := recordReader{}
	r.Object(v, func(name string, v canon.Value) { r.proposer(name, v, p) })
	return r.Err()
}
