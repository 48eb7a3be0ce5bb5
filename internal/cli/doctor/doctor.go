// Package doctor is `palyra hook doctor`: it runs the real agents, each in a home and a workspace of its own and against a
// model of its own on this machine, has them use their tools, and says which of these the hook really stands before.
//
// Promises: no model and no credential of the person's is used, none of their files is changed, and nothing is called good
// that was not seen. What it does not show: what the daemon and its policy then say (see 'palyra check'), other hooks in
// the same settings, and settings that a project brings.
package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/quick"
	"palyra/internal/cli/syntax"
	"palyra/internal/hook"
	"palyra/internal/mcp/install"
	"palyra/internal/show"
	"palyra/internal/standin"
)

// report is what is known of one agent.
type report struct {
	Agent   string   `json:"agent"`
	Title   string   `json:"title"`
	Program string   `json:"program,omitempty"`
	Version string   `json:"version,omitempty"`
	Table   string   `json:"table"` // where the names of its tools are from
	File    string   `json:"file"`
	Hook    string   `json:"hook"` // installed, none, other, off
	Trust   string   `json:"trust,omitempty"`
	MCP     string   `json:"mcp"` // whether its settings have Palyra's server
	Seen    bool     `json:"seen"`
	Tools   []row    `json:"tools"`
	Unknown []string `json:"unknown_tools"` // offered to its model, and not in the table: none was tried
	Untold  []string `json:"untold_tools"`  // offered to its model, and no hook is told of them
	Note    string   `json:"note,omitempty"`
}

// passes reports whether something was seen to pass.
func (r report) passes() bool {
	return slices.ContainsFunc(r.Tools, func(t row) bool { return t.Verdict == Passes })
}

// Settings are how agents' settings are read and written: package connect's.
type Settings struct {
	// Installed says what an agent's settings say of the hook, and which file that is.
	Installed func(inv *invocation.Invocation, agent hook.AgentProgram, workspace string) (string, install.Hooked)
	// WriteProbe writes the hook, with a command line for probes, into the settings of the invocation's home.
	WriteProbe func(inv *invocation.Invocation, agent hook.AgentProgram, found install.Hooked, self, dir string) (string, error)
	// Trusted is what Codex says about the hook in a file; Trust has Codex trust it.
	Trusted func(ctx context.Context, inv *invocation.Invocation, file string) (holds bool, says string)
	Trust   func(ctx context.Context, inv *invocation.Invocation, file string) error
	// OnPath finds a program, and MCP says whether a client's settings have Palyra's server.
	OnPath func(inv *invocation.Invocation, program string) string
	MCP    func(inv *invocation.Invocation, client string) string
}

// options of the command.
type options struct {
	settings  Settings
	workspace string
	keep      bool
}

// Command is `palyra hook doctor`.
func Command(inv *invocation.Invocation, settings Settings) *cobra.Command {
	o := options{settings: settings}
	cmd := &cobra.Command{
		Use: "doctor [AGENT]", Short: "Try out which tools of an agent the hook really stands before",
		Args: cobra.MaximumNArgs(1), ValidArgs: hook.Names(),
		Long: "Runs the real agents that are on your path, each in an empty home and workspace of its own\n" +
			"and against a model of the doctor's own on this machine, with the hook as it is in your\n" +
			"settings, and has them use their tools: what is said yes to, what is said no to, what is\n" +
			"rewritten, and what when the hook fails or is killed. No model of yours is asked, no key\n" +
			"of yours is there, and none of your files is changed.\n\n" +
			"Of each tool it says what was seen: rewritten (a no holds, and a command runs as the hook\n" +
			"says), only judged (a no holds; what is allowed runs outside the sandbox), passes, or not seen.\n" +
			"Of an agent that cannot be run here it says so, and nothing else. It takes half a minute\n" +
			"for each, and ends with 1 where something passes.",
		Example: "  palyra hook doctor\n  palyra hook doctor codex --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			names := hook.Names()
			if len(args) > 0 {
				if _, ok := hook.Find(args[0]); !ok {
					return exit.Usagef("%s is no agent that is known here: %s%s", show.Arg(args[0]), strings.Join(names, ", "),
						syntax.Meant(args[0], names))
				}
				names = args
			}
			return examineAll(cmd.Context(), inv, o, names)
		},
	}
	cmd.Flags().StringVarP(&o.workspace, "workspace", "w", "", "look at the settings of this directory as well")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "keep the directory in which it was tried, and say where it is")
	_ = cmd.MarkFlagDirname("workspace")
	return cmd
}

// examineAll examines agents one after the other.
func examineAll(ctx context.Context, inv *invocation.Invocation, o options, names []string) error {
	all := []report{}
	for _, name := range names {
		agent, _ := hook.Find(name)
		all = append(all, examine(ctx, inv, o, agent))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := inv.Emit(map[string]any{"agents": all}, func(w io.Writer) { say(w, all) }); err != nil {
		return err
	}
	if slices.ContainsFunc(all, report.passes) {
		return exit.Error{Code: exit.Failure, Text: "something passes: see above"}
	}
	return nil
}

// StateOf says in a word what an agent's settings say of the hook.
func StateOf(found install.Hooked) string {
	switch {
	case found.Off:
		return "off"
	case found.Command != "":
		return "installed"
	case found.Other:
		return "other"
	}
	return "none"
}

// examine examines one agent.
func examine(ctx context.Context, inv *invocation.Invocation, o options, agent hook.AgentProgram) report {
	file, found := o.settings.Installed(inv, agent, o.workspace)
	r := report{
		Agent: agent.Name, Title: agent.Title, File: file, Tools: []row{}, Unknown: []string{}, Untold: []string{},
		MCP:   o.settings.MCP(inv, agent.Name),
		Table: strings.TrimSpace(agent.Source + " " + agent.Version), Program: o.settings.OnPath(inv, agent.Program),
	}
	r.Hook = StateOf(found)
	w, can := ways[agent.Name]
	switch {
	case r.Program == "":
		r.Note = "`" + agent.Program + "` is not on your path: nothing was seen"
		return r
	case !can:
		r.Note = "it cannot be run without its window: nothing was seen"
		return r
	}
	r.Version = versionOf(ctx, inv, r.Program)
	if r.Hook != "installed" {
		r.Note = map[string]string{
			"none":  "there is no hook: none of its tools ask Palyra",
			"other": "an entry names the hook and is not one that this program writes: it was not tried. Install it again",
			"off":   "its settings switch all hooks off, or cannot be read: no hook counts",
		}[r.Hook]
		return r
	}
	if agent.Name == hook.Codex {
		var holds bool
		if holds, r.Trust = o.settings.Trusted(ctx, inv, file); !holds {
			r.Note = "Codex does not trust the hook, and skips it without a word"
		}
	}
	if err := r.try(ctx, inv, o, agent, w, found); err != nil {
		r.Note = strings.TrimPrefix(r.Note+"; ", "; ") + "it could not be tried: " + err.Error()
	}
	return r
}

// try runs the agent.
func (r *report) try(
	ctx context.Context, inv *invocation.Invocation, o options, agent hook.AgentProgram, w way, found install.Hooked,
) error {
	a, done, err := newArena(inv, o.keep)
	if err != nil {
		return err
	}
	defer done()
	p := &play{a: a, steps: w.steps(), sub: w.command, given: map[int]string{}}
	model, err := standin.Serve(p.reply)
	if err != nil {
		return err
	}
	defer model.Close()
	a.model = model.URL
	p.a = a
	if err := w.prepare(a); err != nil {
		return err
	}
	scratch := *inv
	scratch.Env = scratchEnv(inv, a)
	at, err := o.settings.WriteProbe(&scratch, agent, found, a.server, a.kept)
	if err != nil {
		return err
	}
	if agent.Name == hook.Codex && r.Trust != "" && !strings.HasPrefix(r.Trust, "un") {
		if err := o.settings.Trust(ctx, &scratch, at); err != nil {
			return err
		}
	}
	path, _ := inv.Variable("PATH")
	said, err := w.run(ctx, r.Program, path, a, p)
	marks, aerr := asked(a.kept)
	if aerr != nil {
		return aerr
	}
	if o.keep {
		_ = os.WriteFile(filepath.Join(a.root, "said.txt"), []byte(said), 0o600)
		r.Note = strings.TrimPrefix(r.Note+"; kept in "+a.root, "; ")
	}
	r.Tools, r.Seen = p.judge(w, marks), p.made > 0
	r.sort(agent, p.offered)
	if !r.Seen {
		return fmt.Errorf("it asked its model for nothing (%v): %s", err, lastLine(said))
	}
	return nil
}

// sort tells apart the tools that an agent offers its model and that the table does not have.
func (r *report) sort(agent hook.AgentProgram, offered []string) {
	for _, name := range offered {
		_, known := agent.Tools[modelName(agent, name)]
		_, untold := agent.Untold[name]
		switch {
		case untold:
			r.Untold = append(r.Untold, name)
		case !known && !strings.Contains(name, "probe"):
			r.Unknown = append(r.Unknown, name)
		}
	}
}

// sayOthers prints the tools that were offered and not tried. Whether a hook is told of them was not seen.
func (r report) sayOthers(w io.Writer) {
	agent, _ := hook.Find(r.Agent)
	for _, name := range r.Untold {
		fmt.Fprintf(w, "  no hook is told of: %s (%s)\n", show.Line(name), show.Line(agent.Untold[name]))
	}
	if len(r.Unknown) > 0 {
		fmt.Fprintf(w, "  not in its table, and not tried: %s; a use that the hook is told of is asked about as hook.NAME\n",
			show.Line(strings.Join(r.Unknown, ", ")))
	}
}

// modelName is what the hook is told of a tool that the model knows by another name.
func modelName(agent hook.AgentProgram, name string) string {
	if agent.Name == hook.Codex && name == "exec_command" {
		return hook.LikeShell
	}
	return name
}

func lastLine(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return show.Line(lines[len(lines)-1])
}

// newArena makes the directories of a run, below the user's cache: Codex takes no home below /tmp.
func newArena(inv *invocation.Invocation, keep bool) (a arena, done func(), err error) {
	self, err := quick.Self()
	if err != nil {
		return a, nil, err
	}
	home, _ := inv.Variable("HOME")
	cache, _ := inv.Variable("XDG_CACHE_HOME")
	if !filepath.IsAbs(cache) {
		cache = filepath.Join(home, ".cache")
	}
	if err := os.MkdirAll(filepath.Join(cache, "palyra"), 0o700); err != nil {
		return a, nil, err
	}
	root, err := os.MkdirTemp(filepath.Join(cache, "palyra"), "doctor-")
	if err != nil {
		return a, nil, err
	}
	a = arena{
		root: root, home: filepath.Join(root, "home"), work: filepath.Join(root, "work"), kept: filepath.Join(root, "kept"), server: self,
	}
	for _, dir := range []string{a.home, a.work, a.kept, filepath.Join(root, "tmp"), filepath.Join(a.work, ".git")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return a, nil, err
		}
	}
	return a, func() {
		if !keep {
			_ = os.RemoveAll(root)
		}
	}, nil
}

// scratchEnv is the environment of the run, as far as it says where settings are.
func scratchEnv(inv *invocation.Invocation, a arena) []string {
	path, _ := inv.Variable("PATH")
	return []string{"PATH=" + path, "HOME=" + a.home, "CODEX_HOME=" + filepath.Join(a.home, ".codex")}
}

// askPatience is how long a program may take to say its version.
const askPatience = 20 * time.Second

// versionOf is what a program says of itself, on its first line.
func versionOf(ctx context.Context, inv *invocation.Invocation, program string) string {
	ctx, done := context.WithTimeout(ctx, askPatience)
	defer done()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Env, cmd.WaitDelay = inv.Env, time.Second
	out := &tail{}
	cmd.Stdout = out
	if cmd.Run() != nil {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
	return show.Line(first)
}

// say prints the reports, what their words mean, and what to do next.
func say(w io.Writer, all []report) {
	tried, found := false, false
	for i, r := range all {
		tried, found = tried || len(r.Tools) > 0, found || r.Program != ""
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, strings.TrimSpace(r.Title+" "+r.Version))
		fmt.Fprintf(w, "  hook: %s (%s)\n", r.Hook, show.Line(r.File))
		if r.Trust != "" {
			fmt.Fprintf(w, "  trust: %s\n", show.Line(r.Trust))
		}
		fmt.Fprintf(w, "  Palyra's tools over MCP: %s\n", r.MCP)
		if r.Note != "" {
			fmt.Fprintf(w, "  %s\n", show.Line(r.Note))
		}
		wide := 24
		for _, t := range r.Tools {
			wide = max(wide, len(t.Tool))
		}
		for _, t := range r.Tools {
			line := fmt.Sprintf("  %-*s %-11s hook fails: %-9s killed: %-9s %s", wide, t.Tool, t.Verdict, t.OnFailure, t.OnCrash, t.Note)
			fmt.Fprintln(w, strings.TrimRight(line, " "))
		}
		r.sayOthers(w)
		if r.Program != "" && r.Hook == "none" {
			fmt.Fprintf(w, "  next: palyra hook install %s\n", r.Agent)
		}
	}
	switch {
	case tried:
		fmt.Fprint(w, legend)
	case !found && len(all) > 1:
		fmt.Fprintln(w, "\nnone of these agents is on your path, so nothing was tried; once one is: palyra hook install AGENT")
	}
}

// legend says what the words of a row mean.
const legend = `
rewritten    a no holds, and a command that is allowed runs as the hook says: in the sandbox
only judged  a no holds; what is allowed runs outside of the sandbox
passes       nothing holds it
not seen     it could not be tried: nothing is known
hook fails, killed: what becomes of the use when the hook ends with an error, or its shell is killed
`
