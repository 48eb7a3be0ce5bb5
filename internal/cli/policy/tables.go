package policy

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/command"
	"palyra/internal/config"
	"palyra/internal/durable"
	"palyra/internal/policy/tables"
	"palyra/internal/show"
)

func testCommand(inv *invocation.Invocation) *cobra.Command {
	var junit string
	cmd := &cobra.Command{
		Use: "test DIR", Short: "Run the tests of a policy bundle; needs no daemon", Args: syntax.Takes("DIR"),
		Long: "Judges the requests in DIR/tests/*.yaml with the policies in DIR and compares the\n" +
			"answers with what the tests expect. Nothing runs and nothing comes into force; the\n" +
			"configuration is the default one, whatever this machine has. Ends with 1 when a test\n" +
			"fails, something is wrong with a file, or there is no test.\n\n" +
			"  tests:\n" +
			"    - name: pushing is asked about\n" +
			"      request: {argv: [git, push], workspace: known, tier: C}\n" +
			"      expect: {verdict: ask, need: {fresh: true}}\n" +
			"    - name: an agent may look\n" +
			"      request: {principal: agent:local, tool: palyra.fs.read, reads: [README.md]}\n" +
			"      expect: allow",
		Example: "  palyra policy test ./policy\n  palyra policy test ./policy --junit report.xml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err != nil || !info.IsDir() {
				return exit.Failedf(palyra.ReasonFileNotFound, "%s is not a directory", show.Arg(args[0])).
					WithRemedy("give the directory of a policy bundle")
			}
			report, err := tables.RunDir(cmd.Context(), os.DirFS(args[0]), defaultSnapshot(), command.Of)
			if err != nil {
				return err
			}
			return printTables(inv, report, junit)
		},
	}
	cmd.Flags().StringVar(&junit, "junit", "", "also write the results to this file as JUnit XML")
	_ = cmd.MarkFlagFilename("junit", "xml")
	return cmd
}

// defaultSnapshot is the configuration for tests: the same everywhere, so that a repository's tests
// do not depend on who runs them.
func defaultSnapshot() palyra.Snapshot {
	c := config.Default()
	return palyra.Snapshot{
		AllowedTools: c.Tools.Allowed, Principals: c.Tools.Principals, Channels: c.Tools.Surfaces, MaxCallsPerRun: c.ToolCall.MaxCallsPerRun,
	}
}

// printTables prints the results, and returns an error for bad ones. The file is written first, for
// those who read nothing else.
func printTables(inv *invocation.Invocation, r tables.Report, junit string) error {
	if junit != "" {
		text, err := junitOf(r)
		if err != nil {
			return err
		}
		if err := durable.WriteFile(junit, text, 0o644); err != nil {
			return exit.Failedf(palyra.ReasonConfig, "%s cannot be written", show.Arg(junit)).WithCause(err)
		}
	}
	err := inv.Emit(r, func(w io.Writer) { wordTables(inv, w, r) })
	if err != nil || r.OK {
		return err
	}
	return exit.Failedf(palyra.ReasonVerifyFailed, "%s", tally(r)).WithRemedy("correct the policies or what the tests expect of them")
}

// wordTables prints the results as text: the failed tests, and the number of others.
func wordTables(inv *invocation.Invocation, w io.Writer, r tables.Report) {
	for _, p := range r.Problems {
		fmt.Fprintf(w, "BAD   %s\n", show.Line(p.String()))
	}
	for _, t := range r.Tests {
		switch {
		case !t.OK:
			fmt.Fprintf(w, "FAIL  %s:%d  %s\n      %s\n", show.Line(t.File), t.Line, show.Line(t.Name), show.Line(t.Text))
		case !inv.Quiet:
			fmt.Fprintf(w, "ok    %s:%d  %s\n", show.Line(t.File), t.Line, show.Line(t.Name))
		}
	}
	if r.OK {
		fmt.Fprintf(w, "good: %s of bundle %s\n", screen.Count(int64(len(r.Tests)), "test"), show.Line(string(r.Bundle)))
	}
}

// tally counts the failures in one line.
func tally(r tables.Report) string {
	switch n := int64(len(r.Problems)); {
	case n > 0 && r.Failed > 0:
		return fmt.Sprintf("%d of %s failed, and %s found", r.Failed, screen.Count(int64(len(r.Tests)), "test"), screen.Count(n, "problem"))
	case n > 0:
		return screen.Count(n, "problem") + " found"
	}
	return fmt.Sprintf("%d of %s failed", r.Failed, screen.Count(int64(len(r.Tests)), "test"))
}
