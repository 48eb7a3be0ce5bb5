package palyra

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"palyra/internal/canon"
	"palyra/internal/subpath"
)

const planDomain = "plan/v1"

// Plan is the resolved form of a call: everything that decides what will happen, and nothing that does not. Its
// digest is what the approver saw, what was decided and what ran. Detail (diffs, notes) is for people and is derived
// from the bound fields; it is not part of the digest.
type Plan struct {
	Tool         ToolName        `json:"tool"`
	Arguments    json.RawMessage `json:"arguments"`
	Capabilities []Capability    `json:"capabilities,omitempty"`
	Source       Source          `json:"source,omitempty"`
	ReadOnly     bool            `json:"read_only,omitempty"`
	Workspace    WorkspaceRef    `json:"workspace,omitzero"`
	Executable   Executable      `json:"executable,omitzero"`
	Argv         []string        `json:"argv,omitempty"`
	Cwd          string          `json:"cwd,omitempty"`
	Env          []EnvVar        `json:"env,omitempty"`
	Stdin        string          `json:"stdin,omitempty"`    // digest of stdin, or StdinLive
	Terminal     bool            `json:"terminal,omitempty"` // runs on a terminal of its own
	Inputs       []Input         `json:"inputs,omitempty"`
	Links        []Link          `json:"links,omitempty"`          // of the workspace, that lead to inputs
	Staging      Staging         `json:"staging,omitzero"`         // of a program; left out in plans of earlier versions
	Reads        []string        `json:"reads,omitempty"`          // workspace-relative paths
	Writes       []string        `json:"writes,omitempty"`         // workspace-relative paths
	Removes      []string        `json:"removes,omitempty"`        // of Writes: files that are gone then
	Guarded      []string        `json:"guarded_writes,omitempty"` // of Writes: what others obey, by its name or as something sealed leads there
	Tier         Tier            `json:"tier"`
	Profile      string          `json:"profile,omitempty"`
	Asks         bool            `json:"asks,omitempty"` // the profile wants an answer of its own for every run
	Mounts       []Mount         `json:"mounts,omitempty"`
	Files        []RoomFile      `json:"files,omitempty"`        // small files that only the sandbox sees
	Seals        []string        `json:"seals,omitempty"`        // names below the workspace that stay as they are, at any depth
	UnixSockets  bool            `json:"unix_sockets,omitempty"` // may use sockets of the file system that it can see
	AgentSocket  bool            `json:"agent_socket,omitempty"` // is an agent itself, with a door of its own to Palyra
	// workspaces that this agent reaches beside its own; AnyWorkspace: all that its caller does
	AgentWithin []string    `json:"agent_within,omitempty"`
	Egress      []string    `json:"egress,omitempty"`   // host:port; host may be *.suffix or an address
	Publish     []string    `json:"publish,omitempty"`  // HOST:INSIDE: ports of this machine at which a background process answers
	Bindings    []string    `json:"bindings,omitempty"` // secrets by binding name
	Signers     []string    `json:"signers,omitempty"`  // keys by binding name, each use of which is a call of its own
	Limits      Limits      `json:"limits"`
	Enforcement Enforcement `json:"enforcement,omitzero"` // promised by the tier; a run that could not keep it is refused
	Effects     *Effects    `json:"effects,omitempty"`    // what the run did, of a question whether that is kept; a plan that runs has none
	Lasting     bool        `json:"lasting,omitempty"`    // of a file tool: what it replaces, or what others lately did, cannot be undone then
	// what would be written is not all in Detail.Diff: people see it in the arguments only
	Unshown bool `json:"content_not_shown,omitempty"`
	Masked  bool `json:"masked,omitempty"` // values of secrets are masked: it stands for another plan, and never runs

	Detail Detail `json:"-"`
}

// AnyWorkspace stands for every workspace that whoever proposes a call reaches.
const AnyWorkspace = "*"

// WorkspaceRef is the workspace a plan works in.
type WorkspaceRef struct {
	Path  string `json:"path"`            // absolute, resolved
	Owner int64  `json:"owner"`           // uid the work is done as
	Known bool   `json:"known,omitempty"` // an operator registered it; otherwise it is shown as NEW

	Repository Repository `json:"repository,omitzero"` // outside, that the workspace is a work tree of
}

// Repository is a git repository outside of a workspace that is one of its work trees, or its submodule's. An operator
// let runs work on it when the workspace was registered.
type Repository struct {
	Path string `json:"path"`          // its directory, absolute and resolved
	Dir  string `json:"dir,omitempty"` // below Path, with what this work tree has alone; empty: the repository has no others
	Ino  int64  `json:"ino"`           // the number of its directory when it was registered
}

// NoProfile is the profile that a call names that wants none: it furnishes nothing.
const NoProfile = "none"

// StdinLive is the stdin of a plan whose input is fed while it runs, and so is not bound.
const (
	StdinLive    = "live"
	PurposeSkill = "the skill " // begins the Purpose of what a skill has done for it
	StagedWork   = "staged:"    // begins the name of an input that is what waits on the stage of the agent named after it
)

// Executable is a program and the digest it had when the plan was made. Sealed says that the call itself could write
// the file: a copy that nothing can change is run instead.
type Executable struct {
	Path   string `json:"path"`
	Digest Digest `json:"digest"`
	Sealed bool   `json:"sealed,omitempty"`
}

// EnvVar is one variable of a plan: its name, the digest of its value, and the value itself unless it is a secret.
type EnvVar struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
	Value  string `json:"value,omitempty"`
	Secret bool   `json:"secret,omitempty"`
}

// Input is a file whose content decides what the call does. Digest is empty when the file does not exist, which the
// plan binds as well; Mode is then the one it will be made with.
type Input struct {
	Path   string `json:"path"`
	Digest Digest `json:"digest,omitempty"`
	Mode   uint32 `json:"mode,omitempty"`
}

// Link is a symbolic link of the workspace and what it says. Which file an input is depends on the links that lead to it.
type Link struct {
	Path   string `json:"path"` // workspace-relative
	Target string `json:"target"`
}

// Staging says where a run writes: to a layer of its own, whose changes are judged and become the
// workspace's when the run has ended, or to the workspace directly. On a layer of its own it finds its inputs as they
// were checked, whatever becomes of them meanwhile; otherwise they are only looked at again when it has ended.
type Staging struct {
	Writes string `json:"writes"`           // WritesStaged or WritesLive
	Why    string `json:"why,omitempty"`    // live
	Review bool   `json:"review,omitempty"` // staged: it is an agent, and what it and its calls write waits for a person, who keeps it or not
	Of     CallID `json:"of,omitempty"`     // staged: the layer is that of this agent, which it works for
}

// The ways of writing.
const (
	WritesStaged = "staged"
	WritesLive   = "live"
)

// Why a run writes to the workspace directly that could have had a layer of its own.
const LiveAsked, LiveBackground = "asked for", "it runs in the background, and its work is to be seen meanwhile"

// Staged reports whether the run writes to a layer.
func (s Staging) Staged() bool { return s.Writes == WritesStaged }

// Own reports whether the layer is the run's own, whose changes are judged when it has ended.
func (s Staging) Own() bool { return s.Staged() && !s.Review && s.Of == "" }

// LiveAsked reports whether the run writes directly because its caller wanted that, and for no other reason.
func (s Staging) LiveAsked() bool {
	return s.Writes == WritesLive && (s.Why == LiveAsked || s.Why == LiveBackground)
}

// Background reports whether the plan's program goes on while its caller does other things, until it is stopped.
func (p Plan) Background() bool { return p.Tool == ToolProcessStart }

// Mount is a path made visible to a sandbox.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	Writable bool   `json:"writable,omitempty"`
}

// InWritableMount reports whether a path of a sandbox lies in a mount that it can write to.
func InWritableMount(mounts []Mount, path string) bool {
	at, writable := "", false
	for _, m := range mounts {
		if subpath.Within(m.Target, path) && len(m.Target) > len(at) {
			at, writable = m.Target, m.Writable
		}
	}
	return writable
}

// RoomFile is a small file that a sandbox shows at Target, read-only: a generated configuration. It is never a secret.
type RoomFile struct {
	Target string `json:"target"`
	Text   string `json:"text"`
}

// Limits bound a run. Zero means that the tier's default holds.
type Limits struct {
	WallMS       int64 `json:"wall_ms,omitempty"`
	CPUMS        int64 `json:"cpu_ms,omitempty"`
	MemoryBytes  int64 `json:"memory_bytes,omitempty"`
	Processes    int64 `json:"processes,omitempty"`
	OpenFiles    int64 `json:"open_files,omitempty"`
	FileBytes    int64 `json:"file_bytes,omitempty"`
	OutputBytes  int64 `json:"output_bytes,omitempty"`  // delivered; what is over it is cut out of the middle
	EmittedBytes int64 `json:"emitted_bytes,omitempty"` // printed in all; over it the run is ended
	DiskBytes    int64 `json:"disk_bytes,omitempty"`    // written to disks in all; over it the run is ended
}

// Detail is what a plan shows to people beyond its bound fields.
type Detail struct {
	Summary string   `json:"summary,omitempty"` // one line
	Diff    string   `json:"diff,omitempty"`    // unified diff of a write, whole
	Notes   []string `json:"notes,omitempty"`   // what is not bound, what is unusual
}

// Digest returns the plan digest.
func (p Plan) Digest() (Digest, error) {
	d, err := canon.Digest(planDomain, p)
	if errors.Is(err, canon.ErrText) { // names of files are bytes; a plan is text that people read
		return "", Errorf(Invalid, ReasonMalformedInput, "the plan would name something whose name is not text in UTF-8").
			WithRemedy("rename the file, or the one that a link to it leads to, and propose the call again").WithCause(err)
	}
	if err != nil {
		return "", fmt.Errorf("palyra: plan digest: %w", err)
	}
	return Digest(d), nil
}

// PlanDigest returns the digest of a plan's canonical bytes.
func PlanDigest(canonical []byte) Digest { return Digest(canon.Sum(planDomain, canonical)) }

// Unsandboxed returns the plan as it is when the agent does it by its own tools: of what a sandbox would hold nothing
// is left, so its digest is never that of the plan that Palyra runs, and no answer for one is an answer for the other.
func (p Plan) Unsandboxed() Plan {
	p = p.clone()
	p.Tier, p.Profile, p.Limits, p.Enforcement = TierUnsandboxed, "", Limits{}, Enforcement{Mode: "none"}
	p.Mounts, p.Files, p.Seals, p.AgentSocket, p.AgentWithin, p.Executable.Sealed = nil, nil, nil, false, nil, false
	p.Staging, p.Publish = Staging{}, nil
	p.Detail.Notes = append([]string{UnsandboxedNote}, p.Detail.Notes...)
	return p
}

// UnsandboxedNote is what people are told of a plan that the agent runs itself.
const UnsandboxedNote = "NOT SANDBOXED: Palyra only answers whether; the agent runs it itself, with all rights of its own user, " +
	"and Palyra neither holds it nor sees what it does"

// clone returns a plan that shares no memory with p, so that what was granted cannot change with the call it came from.
func (p Plan) clone() Plan {
	p.Arguments = slices.Clone(p.Arguments)
	p.Capabilities = slices.Clone(p.Capabilities)
	p.Argv = slices.Clone(p.Argv)
	p.Env = slices.Clone(p.Env)
	p.Inputs = slices.Clone(p.Inputs)
	p.Links = slices.Clone(p.Links)
	p.Reads, p.Writes = slices.Clone(p.Reads), slices.Clone(p.Writes)
	p.Guarded, p.Removes = slices.Clone(p.Guarded), slices.Clone(p.Removes)
	p.Mounts = slices.Clone(p.Mounts)
	p.Files = slices.Clone(p.Files)
	p.Seals = slices.Clone(p.Seals)
	p.AgentWithin = slices.Clone(p.AgentWithin)
	p.Egress, p.Publish = slices.Clone(p.Egress), slices.Clone(p.Publish)
	p.Bindings, p.Signers = slices.Clone(p.Bindings), slices.Clone(p.Signers)
	p.Enforcement.Mechanisms = slices.Clone(p.Enforcement.Mechanisms)
	p.Enforcement.Limits = maps.Clone(p.Enforcement.Limits)
	return p
}

// Resource is what the plan acts on, for the subject of an approval: the program where there is one, else the tool.
func (p Plan) Resource() string {
	if p.Executable.Path != "" {
		return p.Executable.Path
	}
	return string(p.Tool)
}

// String gives one line for logs: never arguments, which may hold secrets.
func (p Plan) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s", p.Tool, p.Executable.Path))
}

func digestOf(domain string, v any) (Digest, error) {
	d, err := canon.Digest(domain, v)
	return Digest(d), err
}
