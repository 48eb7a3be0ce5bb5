// Package setup is `palyra setup`: five questions, and after them agents that work behind Palyra.
//
// Each answer leads to a command that people could have typed, which is shown and run; it does nothing else. It asks at
// the person's terminal and nowhere else.
//
// Its words are those of docs/words.md.
package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/profile"
	"palyra/internal/show"
)

// Runner runs another command of palyra, with its results written to out.
type Runner func(ctx context.Context, out io.Writer, args ...string) error

// Command is `palyra setup`.
func Command(inv *invocation.Invocation, run Runner) *cobra.Command {
	s := setting{inv: inv, run: run}
	cmd := &cobra.Command{
		Use: "setup", Short: "Put Palyra before the agents you have", Args: syntax.Takes(),
		Long: "Asks five questions at most: which toolchains of your home sandboxes may see, whether\n" +
			"to start the daemon, where agents may work, which agents to put Palyra before, and\n" +
			"whether to observe them first (nothing is blocked or asked, for 7 days at most) or to\n" +
			"hold their calls from the start. Each yes runs a command that you could have typed,\n" +
			"and shows it. Run it again at any time: what is done already is left as it is.",
		Example: "  palyra setup\n  palyra setup --print\n  palyra setup --yes --hold",
		RunE:    func(cmd *cobra.Command, _ []string) error { return s.answer(cmd.Context()) },
	}
	cmd.Flags().BoolVarP(&s.yes, "yes", "y", false, "do all of it without a question")
	cmd.Flags().BoolVar(&s.print, "print", false, "print the commands and do nothing")
	cmd.Flags().BoolVar(&s.hold, "hold", false, "hold calls from the start, and do not observe first")
	return cmd
}

// setting is one run of setup.
type setting struct {
	inv              *invocation.Invocation
	run              Runner
	yes, print, hold bool
	home             string
	asked            int // questions so far
	report           Report
}

// Report is what setup did, or would do.
type Report struct {
	Agents []string `json:"agents"` // that were found, by their names for `palyra hook install`
	Steps  []Step   `json:"steps"`
}

// Step is one command.
type Step struct {
	Command string `json:"command"`
	Done    bool   `json:"done"`
	Error   string `json:"error,omitempty"`
	Remedy  string `json:"remedy,omitempty"`

	args []string
}

// say prints why a step failed, and what to do.
func (st Step) say(inv *invocation.Invocation) {
	inv.SayAlways("palyra: %s", show.Line(st.Error))
	if st.Remedy != "" {
		inv.SayAlways("  remedy: %s", show.Line(st.Remedy))
	}
}

// errStop ends setup where the next steps would be of no use.
var errStop = errors.New("setup: stopped")

func (s *setting) answer(ctx context.Context) error {
	home, _ := s.inv.Variable("HOME")
	switch s.home = filepath.Clean(home); {
	case !filepath.IsAbs(home):
		return exit.Failedf(palyra.ReasonConfig, "HOME is not set to an absolute path").WithRemedy("set HOME to your home directory")
	case s.inv.JSON && !s.yes && !s.print:
		return exit.Usagef("--json asks nothing: add --yes to do it, or --print")
	case !s.yes && !s.print && !s.inv.Interactive():
		return exit.Failedf(palyra.ReasonCancelled, "there is nobody to ask").WithRemedy("run it on a terminal, or with --yes or --print")
	}
	s.report = Report{Agents: screen.Some(s.agents()), Steps: []Step{}}
	err := s.steps(ctx)
	if err != nil && !errors.Is(err, errStop) {
		return err
	}
	return s.finish()
}

// steps asks and does one thing after the other.
func (s *setting) steps(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.toolchains, s.daemon, s.workspace, s.hooks} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// do runs a command, or notes it where it is only to be shown. A step that fails is said, and the others go on.
func (s *setting) do(ctx context.Context, args ...string) bool {
	st := Step{Command: "palyra " + screen.ShellLine(args), args: args}
	if !s.print {
		out := s.inv.Stdout
		if s.inv.JSON {
			out = io.Discard
		} else {
			s.inv.Say("$ %s", show.Line(st.Command))
		}
		err := s.run(ctx, out, args...)
		if st.Done = err == nil; err != nil {
			m := s.inv.Message(err)
			st.Error, st.Remedy = m.Text, m.Remedy
			st.say(s.inv)
		}
	}
	s.report.Steps = append(s.report.Steps, st)
	return st.Done || s.print
}

// yesTo asks a question that takes yes where nothing is typed.
func (s *setting) yesTo(ctx context.Context, question string) (bool, error) {
	if s.yes || s.print {
		return true, nil
	}
	answer, err := terminal.AskLine(ctx, s.number()+question+" [Y/n] ")
	return err == nil && slices.Contains([]string{"", "y", "yes"}, strings.ToLower(answer)), err
}

// number begins a question. What is done already is not asked, and takes no number.
func (s *setting) number() string {
	s.asked++
	return fmt.Sprintf("%d. ", s.asked)
}

// toolchains lets sandboxes see the toolchains of the home directory.
func (s *setting) toolchains(ctx context.Context) error {
	list, err := profile.Find(s.home)
	if err != nil || len(list) == 0 {
		return err
	}
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = t.What
	}
	ok, err := s.yesTo(ctx, "Sandboxes see nothing of your home. Let them read these toolchains: "+show.Line(strings.Join(names, ", "))+"?")
	if ok {
		s.do(ctx, "config", "toolchains", "--yes")
	}
	return err
}

// daemon starts the daemon where none runs.
func (s *setting) daemon(ctx context.Context) error {
	if s.runs(ctx) {
		return nil
	}
	ok, err := s.yesTo(ctx, "Palyra's daemon judges the calls, and does not run yet. Start it?")
	switch {
	case err != nil:
		return err
	case !ok || !s.do(ctx, "up", "--detach"):
		s.inv.Say("without it nothing can be set up: start it with 'palyra up --detach', and run 'palyra setup' again")
		return errStop
	}
	return nil
}

// runs reports whether a daemon answers.
func (s *setting) runs(ctx context.Context) bool {
	c, err := s.inv.Operator()
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = c.Status(ctx)
	return err == nil
}

// workspace registers a directory for agents to work in.
func (s *setting) workspace(ctx context.Context) error {
	dir, err := os.Getwd()
	if err != nil || s.tooWide(dir) {
		dir = ""
	}
	if !s.yes && !s.print {
		if dir, err = s.askDirectory(ctx, dir); err != nil {
			return err
		}
	}
	if dir == "" {
		s.inv.Say("no directory is registered: 'palyra workspace add DIR' does it, in a project of yours")
		return nil
	}
	if abs, err := filepath.Abs(dir); err != nil || !s.registered(ctx, abs) {
		s.do(ctx, "workspace", "add", dir)
	}
	return nil
}

// askDirectory asks for a directory until it is one, or none is wanted.
func (s *setting) askDirectory(ctx context.Context, here string) (string, error) {
	given := here
	if given == "" {
		given = "none"
	}
	number := s.number()
	for {
		dir, err := terminal.AskLine(ctx,
			number+"In which directory may agents work? There they can write, and undo takes it back ["+show.Line(given)+"] ")
		switch {
		case err != nil || dir == "none" || dir == "-" || dir == "n":
			return "", err
		case dir == "":
			return here, nil
		}
		if rest, ok := strings.CutPrefix(dir, "~/"); ok {
			dir = filepath.Join(s.home, rest)
		}
		if isDir(dir) {
			return dir, nil
		}
		s.inv.SayAlways("%s is no directory: name one that exists, or none", show.Line(dir))
	}
}

// registered reports whether a directory is a workspace.
func (s *setting) registered(ctx context.Context, dir string) bool {
	c, err := s.inv.Operator()
	if err != nil {
		return false
	}
	defer c.Close()
	list, err := c.Workspaces(ctx)
	return err == nil && slices.ContainsFunc(list, func(w palyra.Workspace) bool { return w.Path == dir })
}

// observing reports whether calls are observed now.
func (s *setting) observing(ctx context.Context) bool {
	c, err := s.inv.Operator()
	if err != nil {
		return false
	}
	defer c.Close()
	o, err := c.Observation(ctx)
	return err == nil && o.On
}

// tooWide reports whether a directory has more in it than one project.
func (s *setting) tooWide(dir string) bool {
	rel, err := filepath.Rel(dir, s.home)
	return err != nil || filepath.IsLocal(rel) // the home, and all above it
}

// hooks puts Palyra before the agents, and has them observed first.
func (s *setting) hooks(ctx context.Context) error {
	if len(s.report.Agents) == 0 {
		s.inv.Say("no agent that Palyra knows was found; 'palyra hook install AGENT' and 'palyra mcp install CLIENT' connect one")
		return nil
	}
	ok, err := s.yesTo(ctx, "Put Palyra before the tools of "+strings.Join(s.report.Agents, ", ")+"?")
	if err != nil || !ok {
		return err
	}
	observe := !s.hold
	if observe && !s.yes && !s.print {
		observe, err = s.yesTo(ctx,
			"Observe first? For 7 days nothing is blocked or asked, and a report says what would have been; no: hold calls now")
		if err != nil {
			return err
		}
	}
	installed := false
	for _, agent := range s.report.Agents {
		args := []string{"hook", "install", agent}
		if observe {
			args = append(args, "--observe")
		}
		installed = s.do(ctx, args...) || installed
	}
	if observe && installed && !s.observing(ctx) { // a new signature would be for another 7 days
		s.do(ctx, "observe", "start")
	}
	return nil
}

// finish says what there is now.
func (s *setting) finish() error {
	failed := slices.ContainsFunc(s.report.Steps, func(st Step) bool { return st.Error != "" })
	err := s.inv.Emit(s.report, func(w io.Writer) {
		switch {
		case s.print:
			for _, st := range s.report.Steps {
				fmt.Fprintln(w, show.Line(st.Command))
			}
		case len(s.report.Steps) == 0:
			fmt.Fprintln(w, "nothing was done")
		default:
			fmt.Fprint(w, "\nnow start your agent as always. What Palyra sees of it:\n"+
				"  palyra observe report     what would have been asked about or refused, while calls are observed\n"+
				"  palyra approvals watch    what waits for your answer, once they are held\n"+
				"  palyra operator protect   a passphrase for your key, so that no program can answer for you\n")
		}
	})
	if err == nil && failed {
		s.inv.Say("this could not be done:")
		for _, st := range s.report.Steps {
			if st.Error != "" {
				s.inv.SayAlways("$ %s", show.Line(st.Command))
				st.say(s.inv)
			}
		}
		return exit.Failedf(palyra.ReasonConfig, "not all of it could be done").WithRemedy("see above, and run 'palyra setup' again")
	}
	return err
}
