package process

import (
	"cmp"
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"palyra"
	"palyra/internal/show"
	"palyra/internal/tool"
)

const (
	maxArgs     = 4096
	maxArg      = 128<<10 - 1 // MAX_ARG_STRLEN of the kernel, without the zero at the end
	maxArgTotal = 1 << 20     // arguments and environment; the kernel takes a quarter of the stack limit, usually 2 MiB
	maxPath     = 4096
	maxStdin    = 1 << 20
	maxEgress   = 32
	maxSide     = 1000 // rows or columns of a terminal
	maxProfile  = 64

	maxAgentWithin = 32
)

const profileChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// arguments of a call, as the schema has them. Pointers tell "not given" from empty.
type arguments struct {
	Command       string            `json:"command"`
	Args          []string          `json:"args"`
	Cwd           string            `json:"cwd"`
	Env           map[string]string `json:"env"`
	Stdin         *string           `json:"stdin"`
	StdinB64      *string           `json:"stdin_b64"`
	StdinLive     bool              `json:"stdin_live"`
	Terminal      *size             `json:"terminal"`
	Tier          string            `json:"tier"`
	Profile       string            `json:"profile"`
	Egress        []string          `json:"egress"`
	Bindings      []string          `json:"bindings"`
	Script        *string           `json:"script"`
	RequireLimits bool              `json:"require_limits"`
	AgentSocket   bool              `json:"agent_socket"`
	AgentWithin   []string          `json:"agent_within"`
	Live          bool              `json:"live"`
	Staged        bool              `json:"staged"`
	Publish       []string          `json:"publish"`
	Limits        tighter           `json:"limits"`
	TimeoutMS     *int64            `json:"timeout_ms"`
}

type size struct {
	Rows int `json:"rows"`
	Cols int `json:"cols"`
}

// decode reads a plan's arguments and refuses those that no program can be given. The catalog has checked them
// against the schema; the bounds are checked again where more than a message depends on them.
func decode(p palyra.Plan) (arguments, error) {
	var a arguments
	if err := tool.Arguments(p, &a); err != nil {
		return a, err
	}
	if (a.Command == "") == (a.Script == nil) || a.Script != nil && len(a.Args) > 0 {
		return a, malformed("give either command, with args, or script")
	}
	if len(a.Args) > maxArgs {
		return a, malformed("%d arguments are too many", len(a.Args)).WithRemedy("give at most %d", maxArgs)
	}
	for i, s := range append([]string{a.Command}, a.Args...) {
		if err := text("argument "+strconv.Itoa(i), s, maxArg); err != nil {
			return a, err
		}
	}
	for _, s := range []string{a.Command, a.Cwd} {
		if err := text("a path", s, maxPath); err != nil {
			return a, err
		}
	}
	if a.Script != nil {
		if err := text("the script", *a.Script, maxArg-1); err != nil {
			return a, err
		}
		if _, _, err := scripted(*a.Script); err != nil {
			return a, err
		}
	}
	if a.Tier != "" && a.Tier != "b" && a.Tier != "c" {
		return a, malformed("there is no tier %q for programs", palyra.Clip(a.Tier, 32)).WithRemedy("say b or c, or nothing")
	}
	if err := a.agentWithin(); err != nil {
		return a, err
	}
	if len(a.Profile) > maxProfile || strings.Trim(a.Profile, profileChars) != "" {
		return a, malformed("%s cannot be the name of a profile", show.Arg(palyra.Clip(a.Profile, 64))).
			WithRemedy("see 'palyra sandbox profiles'")
	}
	return a, a.terminal()
}

// text checks a string that a program is to get.
func text(what, s string, most int) error {
	switch {
	case len(s) > most:
		return malformed("%s has %d bytes", what, len(s)).WithRemedy("give at most %d; put long text into a file or into stdin", most)
	case strings.IndexByte(s, 0) >= 0:
		return malformed("%s contains a NUL character, which no program can be given", what)
	case !utf8.ValidString(s):
		return malformed("%s is not valid UTF-8", what)
	}
	return nil
}

// agentWithin checks the workspaces that an agent is to reach beside its own.
func (a arguments) agentWithin() error {
	if len(a.AgentWithin) > 0 && !a.AgentSocket {
		return malformed("agent_within is for programs that are agents").WithRemedy("give it with agent_socket")
	}
	if a.Staged && (!a.AgentSocket || len(a.AgentWithin) > 0 || a.Live) {
		return malformed("staged is for programs that are agents, work in one workspace, and do not write to it directly").
			WithRemedy("give it with agent_socket, and without agent_within and live (at a terminal: palyra agent run --staged, without " +
				"--reach and --live)")
	}
	if len(a.AgentWithin) > maxAgentWithin {
		return malformed("%d workspaces are too many", len(a.AgentWithin)).
			WithRemedy("give at most %d, or %q alone", maxAgentWithin, palyra.AnyWorkspace)
	}
	for _, w := range a.AgentWithin {
		if err := text("a workspace", w, maxPath); err != nil {
			return err
		}
	}
	return nil
}

func (a arguments) terminal() error {
	t := a.Terminal
	if t == nil {
		return nil
	}
	if t.Rows < 0 || t.Cols < 0 || t.Rows > maxSide || t.Cols > maxSide {
		return malformed("a terminal has 1 to %d rows and columns", maxSide)
	}
	if a.Stdin != nil || a.StdinB64 != nil {
		return malformed("a terminal is fed while the program runs, and takes no stdin").
			WithRemedy("give stdin_live with terminal, or no terminal")
	}
	return nil
}

// command is the called program and its arguments. A script is an argument of its interpreter, so
// that it is bound; decode has made sure that there is one.
func (a arguments) command() (name string, args []string) {
	if a.Script == nil {
		return a.Command, a.Args
	}
	name, args, _ = scripted(*a.Script)
	return name, args
}

// argv is the command's argv.
func (a arguments) argv() []string {
	name, args := a.command()
	return append([]string{name}, args...)
}

func (a arguments) tier(by palyra.Tier) palyra.Tier {
	switch a.Tier {
	case "b":
		return palyra.TierB
	case "c":
		return palyra.TierC
	}
	return by
}

// fits bounds arguments and environment together, counted as the kernel does.
func fits(argv []string, env []palyra.EnvVar) error {
	const pointer = 8
	total := 0
	for _, s := range argv {
		total += len(s) + 1 + pointer
	}
	for _, v := range env {
		total += len(v.Name) + len("=") + len(v.Value) + 1 + pointer
	}
	if total > maxArgTotal {
		return malformed("arguments and environment have %d bytes together", total).
			WithRemedy("give at most %d; put long text into a file or into stdin", maxArgTotal)
	}
	return nil
}

// bytes is the content of stdin; nil when it is live or empty.
func (a arguments) bytes() ([]byte, error) {
	given := 0
	for _, is := range []bool{a.Stdin != nil, a.StdinB64 != nil, a.StdinLive} {
		if is {
			given++
		}
	}
	var b []byte
	switch {
	case given > 1:
		return nil, malformed("give one of stdin, stdin_b64 and stdin_live")
	case a.Stdin != nil:
		b = []byte(*a.Stdin)
	case a.StdinB64 != nil:
		var err error
		if b, err = base64.StdEncoding.Strict().DecodeString(*a.StdinB64); err != nil {
			return nil, malformed("stdin_b64 is not base64").WithRemedy("use the standard alphabet, with padding").WithCause(err)
		}
	}
	if len(b) > maxStdin {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonInputTooLarge, "stdin has %d bytes", len(b)).
			WithRemedy("give at most %d, put it into a file, or give stdin_live", maxStdin)
	}
	return b, nil
}

// input is the plan's stdin: a digest, live, or nothing.
func (a arguments) input() (string, error) {
	b, err := a.bytes()
	switch {
	case err != nil:
		return "", err
	case a.StdinLive:
		return palyra.StdinLive, nil
	case len(b) == 0:
		return "", nil
	}
	return string(palyra.SumBytes(b)), nil
}

// Stdin returns the stdin of a planned run: nil when it is empty or live. It is checked against the plan's digest.
func (d *Driver) Stdin(p palyra.Plan) ([]byte, error) {
	a, err := decode(p)
	if err != nil {
		return nil, err
	}
	b, err := a.bytes()
	if err != nil || len(b) == 0 {
		return nil, err
	}
	if string(palyra.SumBytes(b)) != p.Stdin {
		return nil, palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "stdin is not what the plan has bound").
			WithRemedy("propose the call anew")
	}
	return b, nil
}

// Size returns the size of a planned run's terminal; zeros without one.
func (d *Driver) Size(p palyra.Plan) (rows, cols int) {
	a, err := decode(p)
	if err != nil || a.Terminal == nil {
		return 0, 0
	}
	rows, cols = a.Terminal.Rows, a.Terminal.Cols
	rows = cmp.Or(rows, 24)
	cols = cmp.Or(cols, 80)
	return rows, cols
}

func malformed(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, format, args...).WithRemedy("see 'palyra tools show %s'", Name)
}
