// Package skill has the words of skills: what a manifest says, what became of an installed skill, and why one is refused.
//
// A skill is a package of tools that somebody published: modules for the WASM runtime, or a folder with a SKILL.md and
// scripts, or both. Its manifest is all that it asks for; what it may do is what of that an operator granted and policy allows.
//
// Manifests are read strictly: a member that is not known, a name in another case, a value over its limit and a tool without
// a schema are refused, each with what is wrong and where. What Parse returns is in its one form.
//
// Its words are those of docs/words.md.
package skill

import (
	"encoding/json"
	"strings"
	"time"

	"palyra"
)

// Format is the version of manifests.
const Format = "palyra-manifest/1"

// Why a package or a manifest is refused.
const (
	ReasonManifest  palyra.Reason = "skill_manifest"      // the manifest is not one
	ReasonArchive   palyra.Reason = "skill_archive"       // the file is not a package in its one form
	ReasonTooLarge  palyra.Reason = "skill_too_large"     // over a limit on sizes or numbers
	ReasonName      palyra.Reason = "skill_entry_name"    // an entry's name could be taken for another path
	ReasonCompress  palyra.Reason = "skill_compressed"    // an entry is larger than it seems
	ReasonUnsigned  palyra.Reason = "skill_unsigned"      // nobody signed it
	ReasonSignature palyra.Reason = "skill_signature"     // the signature is not of these files, or not of this key
	ReasonPublisher palyra.Reason = "skill_publisher"     // it is from another publisher than it was
	ReasonUntrusted palyra.Reason = "skill_untrusted"     // no operator trusts the key
	ReasonDowngrade palyra.Reason = "skill_downgrade"     // it is older than what is here
	ReasonWidened   palyra.Reason = "skill_widened"       // it asks for more than what is here
	ReasonState     palyra.Reason = "skill_not_active"    // it is not active
	ReasonDenied    palyra.Reason = "skill_capability"    // it is not granted
	ReasonNoRuntime palyra.Reason = "skill_no_runtime"    // this installation cannot run modules
	ReasonABI       palyra.Reason = "skill_abi"           // its modules are made for what is not offered here
	ReasonTaken     palyra.Reason = "skill_taken_away"    // it was taken away, or granted less, while it ran
	ReasonFailed    palyra.Reason = "skill_failed"        // the tool itself failed
	ReasonNoRuns    palyra.Reason = "skill_nothing_known" // there are no recorded runs
)

// The sizes of packages, and of the parts in which they are sent to the daemon.
const (
	MaxPackage = 32 << 20
	MaxPart    = 4 << 20
)

// Manifest is what a package says of itself, in skill.toml.
type Manifest struct {
	Format       string       `json:"format" toml:"format"`
	ID           string       `json:"id" toml:"id"`
	Version      string       `json:"version" toml:"version"`
	Publisher    string       `json:"publisher" toml:"publisher"`
	Description  string       `json:"description" toml:"description"`
	License      string       `json:"license,omitempty" toml:"license"`
	ABI          string       `json:"abi,omitempty" toml:"abi,omitempty"` // that its modules are made for; empty: the one there is
	Tools        []ToolSpec   `json:"tools,omitempty" toml:"tools"`
	Folder       *Folder      `json:"folder,omitempty" toml:"folder"`
	Capabilities Capabilities `json:"capabilities" toml:"capabilities"`
	Limits       Limits       `json:"limits" toml:"limits"`
}

// ToolSpec is one tool of a skill: a module, called once for each call.
type ToolSpec struct {
	Name        string `json:"name" toml:"name"`
	Title       string `json:"title,omitempty" toml:"title"`
	Description string `json:"description" toml:"description"`
	Module      string `json:"module" toml:"module"` // a file of the package, NAME.wasm
	// Export is the function of a module of exports that the tool is. Empty: the module is a command.
	Export string `json:"export,omitempty" toml:"export,omitempty"`
	// InputSchema is a JSON Schema of one object, as text.
	InputSchema string `json:"input_schema" toml:"input_schema"`
	ReadOnly    bool   `json:"read_only,omitempty" toml:"read_only"` // the publisher's word, which an operator may take over
}

// Folder is the part of a package that is a folder with a SKILL.md.
type Folder struct {
	// Scripts are the files in it that may be run, by their paths in the folder.
	Scripts []string `json:"scripts,omitempty" toml:"scripts"`
}

// Capabilities are all that a skill asks for. Nothing that is not named is there.
type Capabilities struct {
	Hosts    []string `json:"hosts,omitempty" toml:"hosts"`       // HOST:PORT
	Secrets  []string `json:"secrets,omitempty" toml:"secrets"`   // bindings of the vault, used and not seen
	Storage  []string `json:"storage,omitempty" toml:"storage"`   // prefixes of its own store, with / at the end
	Tools    []string `json:"tools,omitempty" toml:"tools"`       // tools that it calls, each through the gate
	Channels []string `json:"channels,omitempty" toml:"channels"` // channels that it sends to
	Programs []string `json:"programs,omitempty" toml:"programs"` // of a folder: what its scripts start, by name
	Read     []string `json:"read,omitempty" toml:"read"`         // of a folder: paths below the workspace, or "."
	Write    []string `json:"write,omitempty" toml:"write"`       // of a folder: the same, to write
}

// Limits are the most that one call takes. Zero is the default; policy has ceilings of its own.
type Limits struct {
	Fuel      int64 `json:"fuel,omitempty" toml:"fuel"`
	MemoryMiB int64 `json:"memory_mib,omitempty" toml:"memory_mib"`
	TimeoutMS int64 `json:"timeout_ms,omitempty" toml:"timeout_ms"`
}

// State is where an installed skill stands.
type State string

// The states. A packed skill is a file and has none; a removed one has no record but the journal's.
const (
	Quarantined State = "quarantined" // installed, and not offered
	Active      State = "active"      // its tools are offered
	Revoked     State = "revoked"     // its publisher's key is not trusted any more
)

// Skill is an installed skill.
type Skill struct {
	Manifest
	State       State            `json:"state"`
	Why         string           `json:"why,omitempty"` // it is not active
	Digest      palyra.Digest    `json:"digest"`        // of its package
	KeyID       string           `json:"key_id"`
	Granted     Capabilities     `json:"granted"` // of what it asks for
	InstalledBy palyra.Principal `json:"installed_by"`
	InstalledAt time.Time        `json:"installed_at"`
	Bytes       int64            `json:"bytes"`
}

// Publisher is a key that an operator trusts to publish.
type Publisher struct {
	Name      string           `json:"name"`
	KeyID     string           `json:"key_id"`
	PublicKey string           `json:"public_key"` // Ed25519, base64
	AddedBy   palyra.Principal `json:"added_by"`
	AddedAt   time.Time        `json:"added_at"`
	RevokedAt time.Time        `json:"revoked_at,omitzero"`
}

// ToolName is the name of a skill's tool in the catalog.
func ToolName(id, tool string) palyra.ToolName { return palyra.ToolName("skill." + id + "." + tool) }

// The tools that a folder has: its text, and its scripts.
const (
	FolderRead = "read"
	FolderRun  = "run"
)

// Schema is the tool's schema as JSON.
func (t ToolSpec) Schema() json.RawMessage { return json.RawMessage(t.InputSchema) }

// By is who does something with a skill: as what, and with what signature.
type By struct {
	Principal palyra.Principal
	Role      palyra.Role
	Signature palyra.Signature
}

// Addition is a package to be installed.
type Addition struct {
	Package []byte
	Widen   bool // it may ask for more than what is installed
	By      By
}

// Enabling is what an operator grants a skill.
type Enabling struct {
	ID      string
	Digest  palyra.Digest // of the package that was looked at
	Granted Capabilities
	By      By
}

// Shrinking is the least that the recorded runs of a skill took.
type Shrinking struct {
	ID      string       `json:"id"`
	Runs    int64        `json:"runs"` // of this package
	Granted Capabilities `json:"granted"`
	Needed  Capabilities `json:"needed"`
	Applied bool         `json:"applied"`
}

// SaysMay begins what plans say among their mechanisms of each thing that a skill was granted: KIND:VALUE follows.
const SaysMay = "skill_may:"

// Said is what a plan's mechanisms say that a skill was granted.
func Said(mechanisms []string) (Capabilities, error) {
	var terms []string
	for _, m := range mechanisms {
		if term, ok := strings.CutPrefix(m, SaysMay); ok {
			terms = append(terms, term)
		}
	}
	return CapabilitiesOf(terms)
}

// ProgramInput binds a program, by the name by which a skill was granted it.
func ProgramInput(id, name string, digest palyra.Digest) palyra.Input {
	return palyra.Input{Path: "skill:" + id + "/programs/" + name, Digest: digest}
}

// Script is a script of a skill's folder, as it is to be run.
type Script struct {
	ID       string
	Name     string   // its path in the folder
	Program  string   // by which it is run, by name
	Options  []string // of the program, before the script
	Args     []string
	Stdin    string
	Granted  Capabilities
	Limits   Limits
	Says     []string       // mechanisms of the plan, for policies
	Bound    []palyra.Input // what the plan binds beside programs
	Describe string         // for people
}

// Unpacked is the folder of a verified package.
type Unpacked struct {
	ID      string
	Digest  palyra.Digest // of the package
	Files   map[string][]byte
	Scripts []string
}
