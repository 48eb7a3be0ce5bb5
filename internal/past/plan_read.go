package past

import (
	"encoding/json"
	"errors"

	"palyra"
	"palyra/internal/canon"
)

// part is a member of an object that is looked at: how it is read, and how it is taken over from another.
type part[T any] struct {
	read func(r *canon.Reader, v canon.Value, to *T)
	take func(to, from *T)
}

func partOf[T, F any](at func(*T) *F, read func(*canon.Reader, canon.Value, *F)) *part[T] {
	return &part[T]{
		read: func(r *canon.Reader, v canon.Value, to *T) { read(r, v, at(to)) },
		take: func(to, from *T) { *at(to) = *at(from) },
	}
}

// planParts are what policy looks at in a plan. The rest (mounts, inputs, files, seals, limits) is most of it, and
// bound by the digest like everything else.
var planParts = map[string]*part[palyra.Plan]{
	"tool":              partOf(func(p *palyra.Plan) *palyra.ToolName { return &p.Tool }, canon.ReadWord),
	"arguments":         partOf(func(p *palyra.Plan) *json.RawMessage { return &p.Arguments }, readRaw),
	"capabilities":      partOf(func(p *palyra.Plan) *[]palyra.Capability { return &p.Capabilities }, canon.ReadWords),
	"source":            partOf(func(p *palyra.Plan) *palyra.Source { return &p.Source }, canon.ReadWord),
	"workspace":         partOf(func(p *palyra.Plan) *palyra.WorkspaceRef { return &p.Workspace }, readWorkspace),
	"executable":        partOf(func(p *palyra.Plan) *palyra.Executable { return &p.Executable }, readExecutable),
	"argv":              partOf(func(p *palyra.Plan) *[]string { return &p.Argv }, canon.ReadWords),
	"cwd":               partOf(func(p *palyra.Plan) *string { return &p.Cwd }, canon.ReadWord),
	"env":               partOf(func(p *palyra.Plan) *[]palyra.EnvVar { return &p.Env }, readEnv),
	"stdin":             partOf(func(p *palyra.Plan) *string { return &p.Stdin }, canon.ReadWord),
	"read_only":         partOf(func(p *palyra.Plan) *bool { return &p.ReadOnly }, (*canon.Reader).Flag),
	"terminal":          partOf(func(p *palyra.Plan) *bool { return &p.Terminal }, (*canon.Reader).Flag),
	"staging":           partOf(func(p *palyra.Plan) *palyra.Staging { return &p.Staging }, readStaging),
	"reads":             partOf(func(p *palyra.Plan) *[]string { return &p.Reads }, canon.ReadWords),
	"writes":            partOf(func(p *palyra.Plan) *[]string { return &p.Writes }, canon.ReadWords),
	"removes":           partOf(func(p *palyra.Plan) *[]string { return &p.Removes }, canon.ReadWords),
	"guarded_writes":    partOf(func(p *palyra.Plan) *[]string { return &p.Guarded }, canon.ReadWords),
	"tier":              partOf(func(p *palyra.Plan) *palyra.Tier { return &p.Tier }, canon.ReadWord),
	"profile":           partOf(func(p *palyra.Plan) *string { return &p.Profile }, canon.ReadWord),
	"asks":              partOf(func(p *palyra.Plan) *bool { return &p.Asks }, (*canon.Reader).Flag),
	"unix_sockets":      partOf(func(p *palyra.Plan) *bool { return &p.UnixSockets }, (*canon.Reader).Flag),
	"agent_socket":      partOf(func(p *palyra.Plan) *bool { return &p.AgentSocket }, (*canon.Reader).Flag),
	"agent_within":      partOf(func(p *palyra.Plan) *[]string { return &p.AgentWithin }, canon.ReadWords),
	"content_not_shown": partOf(func(p *palyra.Plan) *bool { return &p.Unshown }, (*canon.Reader).Flag),
	"masked":            partOf(func(p *palyra.Plan) *bool { return &p.Masked }, (*canon.Reader).Flag),
	"lasting":           partOf(func(p *palyra.Plan) *bool { return &p.Lasting }, (*canon.Reader).Flag),
	"egress":            partOf(func(p *palyra.Plan) *[]string { return &p.Egress }, canon.ReadWords),
	"publish":           partOf(func(p *palyra.Plan) *[]string { return &p.Publish }, canon.ReadWords),
	"bindings":          partOf(func(p *palyra.Plan) *[]string { return &p.Bindings }, canon.ReadWords),
	"signers":           partOf(func(p *palyra.Plan) *[]string { return &p.Signers }, canon.ReadWords),
	"enforcement":       partOf(func(p *palyra.Plan) *palyra.Enforcement { return &p.Enforcement }, readEnforcement),
}

// proposerParts are what policy looks at in a proposal: who makes it, and in what.
var proposerParts = map[string]*part[palyra.Proposer]{
	"principal":  partOf(func(p *palyra.Proposer) *palyra.Principal { return &p.Principal }, canon.ReadWord),
	"owner":      partOf(func(p *palyra.Proposer) *palyra.Principal { return &p.Owner }, canon.ReadWord),
	"session":    partOf(func(p *palyra.Proposer) *palyra.SessionID { return &p.Session }, canon.ReadWord),
	"run":        partOf(func(p *palyra.Proposer) *palyra.RunID { return &p.Run }, canon.ReadWord),
	"parent":     partOf(func(p *palyra.Proposer) *palyra.CallID { return &p.Parent }, canon.ReadWord),
	"door":       partOf(func(p *palyra.Proposer) *palyra.Surface { return &p.Surface }, canon.ReadWord),
	"calls_used": partOf(func(p *palyra.Proposer) *int64 { return &p.CallsUsed }, (*canon.Reader).Whole),
	"calls_max":  partOf(func(p *palyra.Proposer) *int64 { return &p.CallsMax }, (*canon.Reader).Whole),
}

// ReadJudgedPlan reads of a plan on record what policy looks at.
func ReadJudgedPlan(v canon.Value, p *palyra.Plan) error {
	if v.Kind() != canon.Object {
		return errors.New("past: a plan is an object")
	}
	return readParts(planParts, v, p)
}

// judgedProposer reads of a proposal on record who made it.
func judgedProposer(v canon.Value, p *palyra.Proposer) error { return readParts(proposerParts, v, p) }

func readParts[T any](parts map[string]*part[T], v canon.Value, to *T) error {
	var r canon.Reader
	r.Object(v, func(name string, v canon.Value) {
		if one := parts[name]; one != nil {
			one.read(&r, v, to)
		}
	})
	return r.Err()
}

func readRaw(_ *canon.Reader, v canon.Value, to *json.RawMessage) { *to = json.RawMessage(v.Raw()) }

func readWorkspace(r *canon.Reader, v canon.Value, to *palyra.WorkspaceRef) {
	r.Object(v, func(name string, v canon.Value) {
		switch name {
		case "path":
			canon.ReadWord(r, v, &to.Path)
		case "owner":
			r.Whole(v, &to.Owner)
		case "known":
			r.Flag(v, &to.Known)
		}
	})
}

func readStaging(r *canon.Reader, v canon.Value, to *palyra.Staging) {
	r.Object(v, func(name string, v canon.Value) {
		switch name {
		case "writes":
			canon.ReadWord(r, v, &to.Writes)
		case "why":
			canon.ReadWord(r, v, &to.Why)
		case "review":
			r.Flag(v, &to.Review)
		case "of":
			canon.ReadWord(r, v, &to.Of)
		}
	})
}

func readExecutable(r *canon.Reader, v canon.Value, to *palyra.Executable) {
	r.Object(v, func(name string, v canon.Value) {
		switch name {
		case "path":
			canon.ReadWord(r, v, &to.Path)
		case "digest":
			canon.ReadWord(r, v, &to.Digest)
		case "sealed":
			r.Flag(v, &to.Sealed)
		}
	})
}

func readEnv(r *canon.Reader, v canon.Value, to *[]palyra.EnvVar) {
	canon.ReadList(r, v, to, func(v canon.Value, to *palyra.EnvVar) {
		r.Object(v, func(name string, v canon.Value) {
			switch name {
			case "name":
				canon.ReadWord(r, v, &to.Name)
			case "digest":
				canon.LendWord(r, v, &to.Digest)
			case "value":
				canon.LendWord(r, v, &to.Value)
			case "secret":
				r.Flag(v, &to.Secret)
			}
		})
	})
}

func readEnforcement(r *canon.Reader, v canon.Value, to *palyra.Enforcement) {
	r.Object(v, func(name string, v canon.Value) {
		switch name {
		case "mode":
			canon.ReadWord(r, v, &to.Mode)
		case "mechanisms":
			canon.ReadWords(r, v, &to.Mechanisms)
		case "limits":
			if v.Kind() == canon.Object {
				to.Limits = make(map[string]palyra.Hold, v.Len())
			}
			r.Object(v, func(name string, v canon.Value) {
				var method string
				canon.ReadWord(r, v, &method)
				to.Limits[name] = palyra.Hold(method)
			})
		}
	})
}
