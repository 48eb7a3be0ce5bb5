// Package wasm runs the modules of skills: tier A.
//
// Words: a module is a WebAssembly program, known by its digest. A worker is a process of palyra-wasm, in a cell of
// tier B that reaches nothing; it serves one invocation at a time and one module only. An invocation is one call of a
// function of a module. An instance is a module at work, made for one invocation and gone with it. A permit is something
// outside of the instance that an invocation was granted; a handle is the random number by which the instance names it,
// made for the invocation. A host call is a request of the instance to the daemon, which alone decides and does what is
// asked.
//
// Promises: what a module can do is what the Host does for it, within its Grants. Every invocation ends within its
// limits, by the name of the limit. A worker that dies, stalls or lies costs its one invocation and nothing else.
//
// What modules and the daemon say to each other is in docs/skills-abi.md. Its words are those of docs/words.md.
package wasm

import (
	"context"
	"encoding/json"
	"time"

	"palyra"
)

// ABI is the version of what modules are offered. It never changes its meaning.
const ABI = "palyra-skill/1"

// Kind is how a module is spoken to.
type Kind string

// The kinds.
const (
	Command Kind = "command" // a WASI preview 1 command: stdin and stdout
	Export  Kind = "export"  // exported functions that take and return bytes of the module's memory
)

// Grants is what an invocation may do: what the skill's manifest asks for, the operator granted and policy permits. The zero
// value grants nothing.
type Grants struct {
	HTTPHosts []string      // hosts of requests: "api.example.com" for port 443, or "api.example.com:8443"
	Secrets   []SecretGrant // bindings of the vault, by name
	Storage   []string      // prefixes of keys, such as "cache/"
	Tools     []string      // tools that may be called, through the gate
	Clock     bool          // the time of day
	Random    bool          // true randomness
	Log       bool          // lines for the tape; what is written to stderr comes in any case
}

// SecretGrant is a secret that an invocation may use, and never sees.
type SecretGrant struct {
	Name  string   // of the binding
	Hosts []string // at which its value may go out; each must be among HTTPHosts as well
}

// Limits bound one invocation. A zero field is the default.
type Limits struct {
	Fuel          uint64        `json:"fuel"`           // about one unit for an instruction
	Memory        int64         `json:"memory"`         // bytes of linear memory
	TableElements int           `json:"table_elements"` // of each table
	Instances     int           `json:"instances"`      // instances in the store
	Module        int64         `json:"module"`         // bytes of the module's binary
	Deadline      time.Duration `json:"deadline"`       // from its start to its end
	Compile       time.Duration `json:"compile"`        // for compiling the module, once
	Input         int64         `json:"input"`          // bytes
	Output        int64         `json:"output"`         // bytes of stdout, or of the result
	Logs          int64         `json:"logs"`           // bytes kept of stderr and log lines
	HostCalls     int           `json:"host_calls"`     // requests to the daemon
	HostBytes     int64         `json:"host_bytes"`     // of requests and answers of host calls together
}

// Defaults are the limits of an invocation that sets none.
func Defaults() Limits {
	return Limits{
		Fuel: 1_000_000_000, Memory: 64 << 20, TableElements: 100_000, Instances: 8, Module: 16 << 20,
		Deadline: 30 * time.Second, Compile: 120 * time.Second,
		Input: 1 << 20, Output: 4 << 20, Logs: 256 << 10, HostCalls: 1000, HostBytes: 16 << 20,
	}
}

// Module is a program to run.
type Module struct {
	Digest palyra.Digest // of its binary, which is checked
	// Bytes returns the binary. It is called where no prepared form of the module is kept.
	Bytes func() ([]byte, error)
}

// Invocation is one call of a function of a module.
type Invocation struct {
	Module   Module
	Kind     Kind
	Function string          // of an Export: the function; of a Command: its first argument
	Input    json.RawMessage // JSON
	Grants   Grants
	Limits   Limits
	Host     Host
}

// Result is what an invocation came to. It is filled as far as that came, also beside an error.
type Result struct {
	Output  json.RawMessage // JSON, checked
	Exit    int             // exit code of a Command
	Runtime string          // "wasmtime 44.0.0"
	ABI     string
	Fuel    uint64 // used
	Memory  int64  // bytes of linear memory at the end
	Took    time.Duration
	Granted []Permit  // what it could do, sorted
	Used    []Use     // what it did, and tried, sorted
	Refused []Refusal // host calls that were not done, each once, in their order
	Logs    []byte    // log lines, then stderr, the beginning
	Cut     bool      // more was logged than is kept
}

// Permit is something that an invocation was granted.
type Permit struct {
	Kind PermitKind `json:"kind"`
	Name string     `json:"name,omitempty"` // host, binding, prefix or tool
}

// PermitKind says what a permit is for.
type PermitKind string

// The kinds of permits.
const (
	HTTP    PermitKind = "http"
	Secret  PermitKind = "secret"
	Storage PermitKind = "storage"
	Tool    PermitKind = "tool"
	Clock   PermitKind = "clock"
	Random  PermitKind = "random"
	Log     PermitKind = "log"
)

// Use is what an invocation did with a permit.
type Use struct {
	Permit
	Function string `json:"function"`          // host function
	Count    int    `json:"count"`             // calls of it
	Refused  int    `json:"refused,omitempty"` // those of them that were refused or failed
	Bytes    int64  `json:"bytes"`             // of requests and answers
}

// Refusal is a host call that was not done.
type Refusal struct {
	Permit   Permit // its name is of the module's making where it asked for a handle that it was not granted
	Function string
	Reason   palyra.Reason
	Text     string
}

// Beyond reports whether the module reached for more than it was granted.
func (r Refusal) Beyond() bool { return r.Reason == ReasonNotGranted || r.Reason == ReasonHandle }

// Host does what modules ask for. Every method is called for a permit within the Grants, at most one at a time in an
// invocation. A *palyra.Error comes back to the module as its reason and text; of any other error it learns nothing. What
// is nil does nothing, and the module is told so.
type Host struct {
	Web   Web
	Keys  Keys
	Tools Tools
	Log   func(ctx context.Context, level, text string) // puts a line on the tape
	// Refused puts on record that a module reached for more than it was granted, before it is told. An error ends it.
	Refused func(ctx context.Context, r Refusal) error
}

// Web makes requests.
type Web interface {
	// Request makes a request to a granted host.
	Request(ctx context.Context, host string, r HTTPRequest) (HTTPResponse, error)
}

// Keys keeps values of a skill under keys. A key begins with the prefix that was granted.
type Keys interface {
	// Get returns what is kept under a key; nil: nothing is.
	Get(ctx context.Context, prefix, key string) ([]byte, error)
	// Put keeps a value under a key.
	Put(ctx context.Context, prefix, key string, value []byte) error
	// List returns the first keys, at most limit, that begin with start and come after the key after, sorted.
	List(ctx context.Context, prefix, start, after string, limit int) ([]string, error)
	// Delete forgets a key. It is no error if there is none.
	Delete(ctx context.Context, prefix, key string) error
}

// Tools calls other tools.
type Tools interface {
	// Invoke calls a tool through the gate and returns its outcome.
	Invoke(ctx context.Context, name string, input json.RawMessage) (json.RawMessage, error)
}

// HTTPRequest is a request that a module makes. Secrets stand in its headers as {{NAME}} of their bindings; the Host puts
// the values in.
type HTTPRequest struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"` // https://host[:port]/…, of the handle's host
	Headers map[string]string `json:"headers,omitempty"`
	Body    []byte            `json:"body,omitempty"`    // base64 in JSON
	Secrets []string          `json:"secrets,omitempty"` // names of the bindings that were taken for it
}

// HTTPResponse is the answer to it.
type HTTPResponse struct {
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers,omitempty"`
	Body      []byte            `json:"body"`
	Truncated bool              `json:"truncated,omitempty"`
}
