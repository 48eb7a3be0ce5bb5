// Package invocation is one invocation of the palyra command, with everything that commands have in
// common: its streams and flags, the configuration, the doors of the daemon and the person's key,
// printing as text or as JSON, and its end.
//
// Commands are functions that take an Invocation; none is built into another. It is a value of one
// run and is not for use by several at once.
package invocation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/quick"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/terminal"
	"palyra/internal/config"
	"palyra/internal/durable"
	"palyra/internal/show"
)

// Process is what the surrounding process gives to the command.
type Process struct {
	Version string   // stamped by the build
	Args    []string // without the command's own name
	Env     []string // name=value
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Now     func() time.Time // nil: the clock
}

// Invocation is one run of the command.
type Invocation struct {
	// From the process.
	Version string   // stamped by the build
	Env     []string // name=value
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Now     func() time.Time
	Signals func() (<-chan os.Signal, func()) // nil: the real ones

	// The flags that every command has.
	Home    string     // --home
	Remote  RemoteFlag // --remote
	JSON    bool       // --json
	Quiet   bool       // --quiet
	NoColor bool       // --no-color

	// The state of this run.
	Context   context.Context    // of this run
	Interrupt context.CancelFunc // ends it as Ctrl-C does; nil in parts of tests
	Command   string             // the one that ran, for its help
	ForAgent  bool               // an agent runs it and reads the output, perhaps at a terminal of its own
	RawNow    func() bool        // reports whether the terminal is raw; nil: never
	NoHelp    error              // why a --help shows no page
	AskSecret Asking             // nil: the terminal itself

	loaded *config.Config
}

// Asking asks the person for a line that is not shown.
type Asking func(ctx context.Context, prompt string) (palyra.Secret, error)

// Config loads the configuration once.
func (inv *Invocation) Config() (*config.Config, error) {
	if inv.loaded == nil {
		c, err := config.Load(config.Options{Home: inv.Home, Env: inv.Env})
		if err != nil {
			return nil, err
		}
		inv.loaded = &c
	}
	return inv.loaded, nil
}

// Paths are the paths of the configuration. A faulty configuration does not keep people from a running daemon: it
// can be asked, answered and stopped while its file is being changed. Where none runs the fault is the error.
func (inv *Invocation) Paths() (config.Paths, error) {
	c, err := inv.Config()
	if err == nil {
		return c.Paths, nil
	}
	if e := palyra.AsError(err); e.Code != palyra.Invalid || e.Reason != palyra.ReasonConfig {
		return config.Paths{}, err
	}
	paths, lost := config.Locate(config.Options{Home: inv.Home, Env: inv.Env})
	if lost != nil {
		return config.Paths{}, err
	}
	if agent, _, lost := paths.Sockets(); lost != nil || !exists(agent) {
		return config.Paths{}, err
	}
	return paths, nil
}

// Say prints a message for the person, unless --quiet is given. The text must be escaped already.
func (inv *Invocation) Say(format string, args ...any) {
	if !inv.Quiet {
		inv.SayAlways(format, args...)
	}
}

// SayAlways prints a message even with --quiet. In a raw terminal a line feed alone would leave the
// cursor in its column.
func (inv *Invocation) SayAlways(format string, args ...any) {
	end := "\n"
	if inv.RawNow != nil && inv.RawNow() {
		end = "\r\n"
	}
	fmt.Fprintf(inv.Stderr, format+end, args...)
}

// Emit prints a result: as JSON, or in words.
func (inv *Invocation) Emit(v any, words func(io.Writer)) error {
	if inv.JSON {
		return inv.PrintJSON(v)
	}
	words(inv.Stdout)
	return nil
}

// Answer prints the result of a daemon's answer, unless err is set.
func (inv *Invocation) Answer(err error, v any, words func(io.Writer)) error {
	if err != nil {
		return err
	}
	return inv.Emit(v, words)
}

// PrintJSON prints one value on one line.
func (inv *Invocation) PrintJSON(v any) error {
	b, err := screen.Encode(v)
	if err != nil {
		return err
	}
	_, err = inv.Stdout.Write(b)
	return err
}

// PrintStream prints a tool's text: unchanged into a file or pipe, escaped on a terminal.
func (inv *Invocation) PrintStream(w io.Writer, text, b64 string) {
	switch {
	case b64 != "":
		fmt.Fprintf(inv.Stderr, "palyra: the output is not text; --json has it as base64\n")
	case text == "":
	case terminal.Is(w):
		io.WriteString(w, strings.TrimSuffix(show.Screen(text), "\n")+"\n")
	default:
		io.WriteString(w, text)
	}
}

// WriteTo sends the output of f to stdout, or to a file that appears whole or not at all.
func (inv *Invocation) WriteTo(ctx context.Context, path string, f func(context.Context, io.Writer) error) error {
	if path == "" {
		return f(ctx, inv.Stdout)
	}
	var b bytes.Buffer
	if err := f(ctx, &b); err != nil {
		return err
	}
	if err := durable.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return exit.Failedf(palyra.ReasonInternal, "cannot write %s: %v", path, err)
	}
	inv.Say("palyra: wrote %s to %s", screen.Size(int64(b.Len())), show.Arg(path))
	return nil
}

// Interactive reports whether a person can be asked: they see stderr, type on stdin, and did not ask for JSON.
func (inv *Invocation) Interactive() bool {
	return !inv.JSON && terminal.Is(inv.Stdin) && inv.Person()
}

// Person reports whether a person reads stderr. Agents have terminals too, and type there: an agent
// would answer its own question.
func (inv *Invocation) Person() bool { return terminal.Is(inv.Stderr) && !inv.ForAgent }

// Colours reports whether w should get colours.
func (inv *Invocation) Colours(w io.Writer) bool {
	return !inv.NoColor && !inv.JSON && terminal.Is(w) && !quick.Colourless(inv.Env)
}

// Secret asks for a line that is not shown. Ctrl-C ends the command, as it does everywhere else.
func (inv *Invocation) Secret(ctx context.Context, prompt string) (palyra.Secret, error) {
	if inv.AskSecret != nil {
		return inv.AskSecret(ctx, prompt)
	}
	s, err := terminal.AskSecret(ctx, prompt)
	if errors.Is(err, terminal.ErrInterrupted) && inv.Interrupt != nil {
		inv.Interrupt()
	}
	return s, err
}

// lineEnd ends a line on a silent terminal, where a line feed does not return the cursor.
func (inv *Invocation) lineEnd() string {
	if terminal.Is(inv.Stderr) {
		return "\r\n"
	}
	return "\n"
}

// Variable returns a variable of the environment.
func (inv *Invocation) Variable(name string) (string, bool) {
	for i := len(inv.Env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(inv.Env[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// WorkingDir is the working directory.
func WorkingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("cli: working directory: %w", err)
	}
	return dir, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
