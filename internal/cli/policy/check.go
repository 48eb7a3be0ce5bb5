package policy

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"palyra/client"
	"palyra/client/bundle"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

func checkCommand(inv *invocation.Invocation) *cobra.Command {
	var project bool
	cmd := &cobra.Command{
		Use: "check DIR", Short: "Say what is wrong with policies, and run their tests", Args: syntax.Takes("DIR"),
		Long: "Reads DIR as 'palyra policy apply' would, and changes nothing. With --project DIR is a\n" +
			"workspace, and its own policies in " + bundle.ProjectDir + " are checked, which may only\n" +
			"forbid and have no tests; that needs no daemon.",
		Example: "  palyra policy check policies\n  palyra policy check --project .",
	}
	cmd.Flags().BoolVar(&project, "project", false, "DIR is a workspace: check its own policies in "+bundle.ProjectDir)
	whole := inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
		files, err := readBundle(args[0])
		if found := bundle.ProblemsOf(err); found != nil {
			return checked(inv, client.PolicyCheck{Problems: problems(found)})
		}
		if err != nil {
			return err
		}
		check, err := c.CheckPolicy(ctx, files)
		if err != nil {
			return err
		}
		return checked(inv, check)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if project || ofProject(args[0]) {
			return checkProject(inv, args[0])
		}
		return whole(cmd, args)
	}
	return cmd
}

// ofProject reports whether a directory holds a workspace's own policies: as a whole bundle it
// would let nobody do anything.
func ofProject(dir string) bool {
	path, err := filepath.Abs(dir)
	return err == nil && strings.HasSuffix(filepath.ToSlash(path), "/"+bundle.ProjectDir)
}

// checkProject reports the faults of a workspace's own policies.
func checkProject(inv *invocation.Invocation, dir string) error {
	r, err := bundle.CheckProject(dir)
	if err != nil {
		return err
	}
	return checked(inv, client.PolicyCheck{Bundle: r.Bundle, Policies: int64(r.Policies), Problems: problems(r.Problems)})
}

// problems converts problems that were found here to the form of a daemon's answer.
func problems(found []bundle.Problem) (out []client.PolicyProblem) {
	for _, p := range found {
		out = append(out, client.PolicyProblem{File: p.File, Line: int64(p.Line), Column: int64(p.Column), Text: p.Text})
	}
	return out
}

// checked prints the result of a check, and returns its exit code.
func checked(inv *invocation.Invocation, check client.PolicyCheck) error {
	if err := inv.Emit(check, func(w io.Writer) { printCheck(w, check) }); err != nil {
		return err
	}
	return notGood(check)
}

func printCheck(w io.Writer, c client.PolicyCheck) {
	for _, p := range c.Problems {
		fmt.Fprintf(w, "%s\n", show.Line(fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)))
	}
	bad := 0
	for _, t := range c.Tests {
		if !t.OK {
			bad++
			fmt.Fprintf(w, "%s\n", show.Line(fmt.Sprintf("%s:%d: %s: %s", t.File, t.Line, t.Name, t.Text)))
		}
	}
	for _, text := range c.Warnings {
		fmt.Fprintf(w, "warning: %s\n", show.Line(text))
	}
	if c.Bundle != "" {
		tests := "none"
		if len(c.Tests) > 0 {
			tests = fmt.Sprintf("%d of %d good", len(c.Tests)-bad, len(c.Tests))
		}
		screen.Fields(w, screen.Pair{"Bundle", string(c.Bundle)},
			screen.Pair{"Policies", strconv.FormatInt(c.Policies, 10)}, screen.Pair{"Tests", tests})
	}
}

// notGood is the exit code of a check that found something, which has been printed.
func notGood(c client.PolicyCheck) error {
	bad := len(c.Problems) > 0
	for _, t := range c.Tests {
		bad = bad || !t.OK
	}
	if bad {
		return exit.Error{Code: exit.Failure}
	}
	return nil
}
