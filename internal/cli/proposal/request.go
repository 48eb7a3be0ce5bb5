package proposal

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/processargs"
	"palyra/internal/cli/screen"
)

// MaxInput is the most that is read as a tool's input. The daemon refuses input over a tool's own
// limit, on record; this only bounds the command itself.
const MaxInput = 64 << 20

// Input is the command's stdin: head and nothing else, or, when live, head and then the bytes of
// rest while the command runs.
type Input struct {
	Head []byte
	Live bool
	Rest io.Reader
}

// Arguments, Size and Limits are parts of the input of the tool.
type (
	Arguments = processargs.Arguments
	Size      = processargs.Size
	Limits    = processargs.Limits
)

// Request makes the call to propose, for a script or a command.
func (o *Options) Request(argv []string, script string, in Input, t *Size) (client.CallRequest, error) {
	vars, err := o.variables()
	if err != nil {
		return client.CallRequest{}, err
	}
	args := Arguments{
		Cwd: o.Cwd, Env: vars, Live: in.Live, Terminal: t, Tier: o.Tier, Profile: o.Profile, Egress: o.Egress, Bindings: o.bindings,
		Script: script, Held: o.limits,
		Writes: o.live, Agent: o.Agent, Staged: o.Staged, Within: o.Within,
	}
	tool := palyra.ToolProcessRun
	if o.Background {
		tool, args.Publish, args.Writes = palyra.ToolProcessStart, o.Publish, false // it does so anyway
	}
	if script == "" {
		args.Command, args.Args = argv[0], argv[1:]
	}
	args.Cwd = cmp.Or(args.Cwd, ".")
	if !in.Live {
		args.Stdin, args.StdinB64 = textOr64(in.Head)
	}
	l := Limits{
		CPUMS: time.Duration(o.cpu).Milliseconds(), MemoryBytes: int64(o.memory), Processes: o.processes, DiskBytes: int64(o.disk),
	}
	if l != (Limits{}) {
		args.Limits = &l
	}
	raw, err := processargs.Encode(args)
	if err != nil {
		return client.CallRequest{}, fmt.Errorf("cli: exec: %w", err)
	}
	return client.CallRequest{
		Tool: tool, Arguments: raw, Workspace: o.Workspace, Session: o.session, Key: o.key, NoWait: o.NoWait,
		Timeout: time.Duration(o.timeout), Surface: palyra.SurfaceCLI,
	}, nil
}

// textOr64 is bytes as text, which people can read, or as base64 when they are not text or would be
// too long as JSON: control characters take six bytes each there.
func textOr64(b []byte) (text, b64 string) {
	const most = 3 << 20 // of the 4 MiB that the tool takes
	if raw, err := screen.EncodePlain(string(b)); utf8.Valid(b) && err == nil && len(raw) <= most {
		return string(b), ""
	}
	return "", base64.StdEncoding.EncodeToString(b)
}

const (
	// MaxStdin is how much of stdin is sent with the call, and so bound by its approval. A longer
	// one is fed while the command runs.
	MaxStdin = 1 << 20
	// FeedSize is the size of a piece of stdin.
	FeedSize = 32 << 10
	// StdinPatience is how long stdin may take before the person is told that the command waits for it.
	StdinPatience = 2 * time.Second
)
