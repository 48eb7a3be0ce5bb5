// Package config is the operator's configuration: one typed struct, and for every value the place it comes from.
//
// A value is taken from the strongest place that names it: a flag, then the environment
// (PALYRA_TOOL_CALL_MAX_CALLS_PER_RUN for tool_call.max_calls_per_run), then the user's file, then the
// system's file, then the default. Files are TOML.
//
// Promises: an unknown key, a wrong type, a value out of range or a file that somebody else could write is an error
// that names file and line, never a silent default; the daemon does not start on a configuration that was only half
// understood. The package also says where things live (Paths). It holds no secrets and watches no files.
package config

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"palyra"
	"palyra/internal/config/home"
)

// Config is the whole configuration.
type Config struct {
	ToolCall  ToolCall             `key:"tool_call"`
	Approvals Approvals            `key:"approvals"`
	Tools     Tools                `key:"tools"`
	Sessions  Sessions             `key:"sessions"`
	Policy    Policy               `key:"policy"`
	Process   Process              `key:"process"`
	Egress    Egress               `key:"egress"`
	Dotenv    Dotenv               `key:"dotenv"`
	Undo      Retention            `key:"undo"`
	Remote    Remote               `key:"remote"`
	Console   Console              `key:"console"`
	MCP       MCP                  `key:"mcp"`
	Models    Models               `key:"models"`
	Providers map[string]*Provider // of models, by name
	Groups    map[string]*[]string // of hosts that people can answer for at once, by name
	Limits    Limits               `key:"limits"`
	Log       Log                  `key:"log"`
	Store     Store                `key:"store"`

	Paths Paths

	origins map[string]origin
}

// ToolCall bounds runs and calls. A session or a call may only lower them.
type ToolCall struct {
	MaxCallsPerRun     int64 `key:"max_calls_per_run"`
	ExecutionTimeoutMS int64 `key:"execution_timeout_ms"`
	OutputBytes        int64 `key:"output_bytes"`
	RunTimeoutMS       int64 `key:"run_timeout_ms"`
	RunOutputBytes     int64 `key:"run_output_bytes"`
	ParallelCalls      int64 `key:"parallel_calls"`
	DailyBytes         int64 `key:"daily_bytes"`
}

// Process bounds native programs. A call may only lower the limits.
type Process struct {
	Tier         string `key:"tier"` // the tier of a call that names none; "off" runs nothing
	CPUMS        int64  `key:"cpu_ms"`
	MemoryBytes  int64  `key:"memory_bytes"`
	Processes    int64  `key:"processes"`
	OpenFiles    int64  `key:"open_files"`
	FileBytes    int64  `key:"file_bytes"`
	EmittedBytes int64  `key:"emitted_bytes"`
	DiskBytes    int64  `key:"disk_bytes"`
	StageBytes   int64  `key:"stage_bytes"`
	StageNames   int64  `key:"stage_names"`
	AllStages    int64  `key:"all_stages_bytes"`
	Stage        string `key:"stage"` // which programs of tier C are staged: inputs (those with inputs in their workspace) or all
	GraceMS      int64  `key:"grace_ms"`
	Cgroup       string `key:"cgroup"`    // auto, off, or a directory of the cgroup file system
	Warm         int64  `key:"warm"`      // cells kept ready
	Cell         string `key:"cell"`      // path of palyra-cell, when not beside palyrad
	Dir          string `key:"dir"`       // private directories of runs, when not in their usual place
	Bwrap        string `key:"bwrap"`     // bubblewrap
	TmpBytes     int64  `key:"tmp_bytes"` // of the private home and /tmp in tier C, each
	Posture      string `key:"posture"`   // require, or off
	Unproven     string `key:"unproven"`  // off, or the tier C of a system on which nobody has run it

	QuarantineDays           int64 `key:"quarantine_days"`            // days that quarantined files are kept
	QuarantineBytes          int64 `key:"quarantine_bytes"`           // bytes of all quarantined files
	QuarantineWorkspaceBytes int64 `key:"quarantine_workspace_bytes"` // bytes of those from one workspace
	CacheDays                int64 `key:"cache_days"`                 // days that unused caches are kept
}

// Egress says how programs reach others.
type Egress struct {
	Mode          palyra.NetworkMode `key:"mode"`
	AllowedHosts  []string           `key:"allowed_hosts"`
	PrivateRanges []string           `key:"private_ranges"`
	HostNetwork   string             `key:"host_network"`   // on or off
	Ask           string             `key:"ask"`            // on or off
	WildcardNames int64              `key:"wildcard_names"` // below one suffix, of a run
	Resolver      string             `key:"resolver"`
	Upstream      string             `key:"upstream"`
}

// Dotenv says which files are shown with placeholders for their secret values, and where.
type Dotenv struct {
	Mask     string   `key:"mask"`     // on or off
	Unmasked []string `key:"unmasked"` // workspaces that show values, and what is below them
	Names    []string `key:"names"`    // further names of such files
}

// Retention says how long, and how much of, what calls replaced is kept.
type Retention struct {
	Days  int64 `key:"days"`
	Bytes int64 `key:"bytes"`
}

// Remote is about other machines.
type Remote struct {
	Listen          string   `key:"listen"`
	Advertise       []string `key:"advertise"`
	CertificateDays int64    `key:"certificate_days"`
}

// Console is about browsers, on this machine and beyond.
type Console struct {
	Listen      string `key:"listen"`
	HTTPSListen string `key:"https_listen"`
	HTTPSName   string `key:"https_name"`
	Certificate string `key:"certificate"`
	Key         string `key:"key"`
	PlainListen string `key:"plain_listen"`

	Push         string   `key:"push"` // off, or whom push services write to
	PushServices []string `key:"push_services"`
}

// Limits bound how many requests each caller may make in a time. 0 is no limit, except for logins.
type Limits struct {
	RequestsPerSecond int64 `key:"requests_per_second"`
	ProposePerSecond  int64 `key:"propose_per_second"`
	DecidePerSecond   int64 `key:"decide_per_second"`
	LoginPerMinute    int64 `key:"login_per_minute"`
}

// Approvals sets how long questions and answers hold.
type Approvals struct {
	WaitMS     int64 `key:"wait_ms"`
	MaxPending int64 `key:"max_pending"`
	DailyBytes int64 `key:"daily_bytes"`
	DenyHoldMS int64 `key:"deny_hold_ms"`
	OnceTTLMS  int64 `key:"once_ttl_ms"`
	MaxTTLMS   int64 `key:"max_ttl_ms"`
}

// Tools says which tools exist for whom. Entries are names, prefixes that end
// in ".*", or "*"; an empty list admits nothing. See Match.
type Tools struct {
	Allowed    []string `key:"allowed"`
	Principals []string `key:"tool_execute_principals"`
	Surfaces   []string `key:"tool_execute_surfaces"`
}

// Sessions sets how long a session may rest.
type Sessions struct {
	IdleMS int64 `key:"idle_ms"`
}

// MCP is about clients of `palyra mcp serve`.
type MCP struct {
	PendingAfterMS int64 `key:"pending_after_ms"`
}

// Log sets what the daemon writes to its log.
type Log struct {
	Level  string `key:"level"`
	Format string `key:"format"`
}

// Store says where the state is kept, when not in its usual place.
type Store struct {
	Path string `key:"path"`
}

// Default returns the configuration of an installation that set nothing, but for Paths.
func Default() Config {
	return Config{
		ToolCall: ToolCall{
			MaxCallsPerRun: 64, ExecutionTimeoutMS: 120_000, OutputBytes: 1 << 20, RunTimeoutMS: 3600_000,
			RunOutputBytes: 64 << 20, ParallelCalls: 4, DailyBytes: 256 << 20,
		},
		Approvals: Approvals{
			WaitMS: 300_000, MaxPending: 32, DailyBytes: 256 << 20, DenyHoldMS: 300_000, OnceTTLMS: 300_000,
			MaxTTLMS: 24 * 3600_000,
		},
		Tools:    Tools{Allowed: []string{"*"}, Principals: []string{"*"}, Surfaces: []string{"*"}},
		Sessions: Sessions{IdleMS: 12 * 3600_000},
		Policy:   Policy{Preset: "default"},
		Process: Process{
			Tier: "c", CPUMS: 600_000, MemoryBytes: 2 << 30, Processes: 256, OpenFiles: 1024, FileBytes: 1 << 30, EmittedBytes: 256 << 20,
			DiskBytes:  16 << 30,
			StageBytes: 4 << 30, StageNames: 500_000, AllStages: 16 << 30, Stage: "all",
			GraceMS: 2000, Cgroup: "auto", Warm: 2, Bwrap: "/usr/bin/bwrap", TmpBytes: 1 << 30, Posture: "off", Unproven: "off",
			QuarantineDays: 30, QuarantineBytes: 4 << 30, QuarantineWorkspaceBytes: 2 << 30, CacheDays: 90,
		},
		Dotenv: Dotenv{Mask: "on", Unmasked: []string{}, Names: []string{}},
		Egress: Egress{Mode: "strict", AllowedHosts: []string{}, PrivateRanges: []string{}, HostNetwork: "off", Ask: "on", WildcardNames: 32},
		Undo:   Retention{Days: 7, Bytes: 2 << 30},
		Remote: Remote{Listen: ":7443", Advertise: []string{}, CertificateDays: 30},
		Console: Console{
			Listen: "127.0.0.1:7142", HTTPSListen: "off", PlainListen: "off", Push: "off",
			PushServices: []string{
				"fcm.googleapis.com", "updates.push.services.mozilla.com", "*.push.apple.com", "*.notify.windows.com",
			},
		},
		MCP:    MCP{PendingAfterMS: 45_000},
		Models: Models{ContextBytes: 400_000, ResultBytes: 16 << 10, MaxTurns: 50, AnswerTokens: 8192, Principals: []string{"*"}},
		Limits: Limits{RequestsPerSecond: 500, ProposePerSecond: 50, DecidePerSecond: 20, LoginPerMinute: 5},
		Log:    Log{Level: "info", Format: "text"},
	}
}

// Options say where to look. The zero Options read the process's own environment and the usual files.
type Options struct {
	Home       string            // --home: beats PALYRA_HOME
	Flags      map[string]string // key → value, from the command line
	Env        []string          // name=value; nil: the process's own
	SystemFile string            // "": /etc/palyra/config.toml
}

// DefaultSystemFile is the system's configuration file.
const DefaultSystemFile = "/etc/palyra/config.toml"

// Problem is one thing wrong with a configuration.
type Problem struct {
	Where string `json:"where"` // file:line, variable or flag; "" when it is about no place
	Key   string `json:"key,omitempty"`
	Text  string `json:"text"`

	unsafe   bool
	unusable string // the directory it is about
}

// String gives the problem on one line.
func (p Problem) String() string {
	out := p.Text
	if p.Key != "" {
		out = p.Key + ": " + out
	}
	if p.Where != "" {
		out = p.Where + ": " + out
	}
	return out
}

// Load reads the configuration. On any problem it returns an error about the first one, and no configuration.
func Load(o Options) (Config, error) {
	c, problems := read(o)
	if len(problems) == 0 {
		return c, nil
	}
	first := problems[0]
	reason := palyra.ReasonConfig
	if first.unsafe {
		reason = palyra.ReasonUnsafePermissions
	}
	text := first.String()
	if dir := first.unusable; dir != "" {
		return Config{}, palyra.Errorf(palyra.Unavailable, reason, "%s", text).
			WithRemedy("name a directory of your own with PALYRA_HOME or --home; %s is none that uid %d can use", dir, os.Getuid())
	}
	if more := len(problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return Config{}, palyra.Errorf(palyra.Invalid, reason, "configuration: %s", text).
		WithRemedy("correct it; `palyra config check` lists every problem and `palyra config show` every key")
}

// Check reads the configuration and returns everything that is wrong with it.
func Check(o Options) []Problem {
	_, problems := read(o)
	return problems
}

// Paths is where things live.
type Paths = home.Paths

// Locate says where a configuration is, also one that cannot be used.
func Locate(o Options) (Paths, error) {
	env := o.Env
	if env == nil {
		env = os.Environ()
	}
	return home.Find(o.Home, environ(env))
}

// read goes from the weakest place to the strongest. It reads on after a problem so that Check can name them all.
func read(o Options) (Config, []Problem) {
	c := Default()
	c.origins = map[string]origin{}
	env := o.Env
	if env == nil {
		env = os.Environ()
	}
	paths, err := home.Find(o.Home, environ(env))
	if err != nil {
		return Config{}, []Problem{{Text: err.Error()}}
	}
	paths.System = o.SystemFile
	paths.System = cmp.Or(paths.System, DefaultSystemFile)
	problems := c.fromFile(paths.System, fromSystem)
	problems = append(problems, c.fromFile(paths.Config, fromUser)...)
	problems = append(problems, c.fromEnv(env)...)
	problems = append(problems, c.fromFlags(o.Flags)...)
	problems = append(problems, c.check()...)
	if c.Store.Path != "" {
		paths.State = c.Store.Path
	}
	c.Paths = paths
	return c, problems
}

// Match reports whether a name is in a list of names, prefixes with ".*" and "*".
func Match(list []string, name string) bool {
	for _, entry := range list {
		prefix, wild := strings.CutSuffix(entry, "*")
		if entry == name || wild && (prefix == "" || strings.HasSuffix(prefix, ".") && strings.HasPrefix(name, prefix)) {
			return true
		}
	}
	return false
}

// Wait is how long a question waits.
func (a Approvals) Wait() time.Duration { return ms(a.WaitMS) }

// DenyHold is how long a denied plan may not be asked for again.
func (a Approvals) DenyHold() time.Duration { return ms(a.DenyHoldMS) }

// OnceTTL is how long an answer of scope once may rest before it is used.
func (a Approvals) OnceTTL() time.Duration { return ms(a.OnceTTLMS) }

// MaxTTL is the longest that a lease may last.
func (a Approvals) MaxTTL() time.Duration { return ms(a.MaxTTLMS) }

// ExecutionTimeout is how long a call may run.
func (t ToolCall) ExecutionTimeout() time.Duration { return ms(t.ExecutionTimeoutMS) }

// Grace is how long an ended program has between SIGTERM and SIGKILL.
func (p Process) Grace() time.Duration { return ms(p.GraceMS) }

// Idle is how long a session may rest before it is closed.
func (s Sessions) Idle() time.Duration { return ms(s.IdleMS) }

// PendingAfter is how long a client's call may take before it is answered "pending".
func (m MCP) PendingAfter() time.Duration { return ms(m.PendingAfterMS) }

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
