package skills

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
	"palyra/internal/skill"
)

func installCommand(inv *invocation.Invocation) *cobra.Command {
	var widen bool
	cmd := &cobra.Command{
		Use: "install FILE", Short: "Install a package, into quarantine", Args: syntax.Takes("FILE"),
		Long: "The daemon checks the package and that a key signed it which you trust ('palyra skills\n" +
			"trust add'). A new skill waits in quarantine until it is enabled. An update may not be\n" +
			"older or from another publisher; one that asks for nothing more goes on as the skill was,\n" +
			"one that asks for more is refused, or waits in quarantine with --widen.",
		Example: "  palyra skills install demo-0.1.0.skill",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			_, raw, err := readPackage(ctx, args[0])
			if err != nil {
				return err
			}
			s, err := c.InstallSkill(ctx, raw, widen)
			return inv.Answer(err, whole(s), func(w io.Writer) { installed(inv, w, s) })
		}),
	}
	cmd.Flags().BoolVar(&widen, "widen", false, "it may ask for more than what is installed; it then waits in quarantine")
	return cmd
}

func installed(inv *invocation.Invocation, w io.Writer, s skill.Skill) {
	printSkill(w, s)
	if s.State != skill.Active {
		inv.Say("palyra: it is in quarantine; look at what it asks for, and enable it: palyra skills enable %s%s", show.Arg(s.ID), all(s))
	}
}

// all is the flag that grants all that a skill asks for, where it asks for something.
func all(s skill.Skill) string {
	if s.Capabilities.Empty() {
		return ""
	}
	return " --all"
}

// whole replaces null lists by empty ones.
func whole(s skill.Skill) skill.Skill {
	s.Tools = screen.Some(s.Tools)
	return s
}

func printSkill(w io.Writer, s skill.Skill) {
	pairs := []screen.Pair{
		{"Skill", s.ID + " " + s.Version},
		{"State", string(s.State)},
		{"Why", s.Why},
		{"Publisher", s.Publisher},
		{"Signed by", s.KeyID},
		{"Digest", string(s.Digest)},
		{"Size", screen.Size(s.Bytes)},
		{"Installed", screen.Stamp(s.InstalledAt) + " by " + string(s.InstalledBy)},
		{"Says", s.Description},
		{"Unusual", strings.Join(show.Notes(s.Description), "; ")},
	}
	pairs = append(pairs, aboutManifest(s.Manifest)...)
	granted := s.Granted.Lines()
	if len(granted) == 0 {
		granted = []string{"nothing"}
	}
	for _, line := range granted {
		pairs = append(pairs, screen.Pair{"Granted", line})
	}
	screen.Fields(w, pairs...)
}

func completeSkills(inv *invocation.Invocation) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return invocation.Offer(cmd, inv.Operator, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := c.Skills(ctx)
			return invocation.WordsOf(list, err, func(s skill.Skill) string { return s.ID })
		})
	}
}

func listCommand(inv *invocation.Invocation) *cobra.Command {
	return invocation.List[skill.Skill]{
		Short: "List installed skills", Example: "  palyra skills list",
		Name: "skills", Find: (*client.Client).Skills, Whole: whole,
		Head: []string{"SKILL", "VERSION", "STATE", "PUBLISHER", "TOOLS", "GRANTED"},
		Row: func(s skill.Skill) []string {
			return []string{s.ID, s.Version, string(s.State), s.Publisher, toolNames(s), strings.Join(s.Granted.Lines(), "; ")}
		},
	}.Command(inv)
}

func toolNames(s skill.Skill) string {
	var names []string
	for _, t := range s.Tools {
		names = append(names, t.Name)
	}
	if s.Folder != nil {
		names = append(names, skill.FolderRead)
		if len(s.Folder.Scripts) > 0 {
			names = append(names, skill.FolderRun)
		}
	}
	return strings.Join(names, ", ")
}

func showCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a skill: what it asks for, and what it was granted", Args: syntax.Takes("ID"),
		ValidArgsFunction: completeSkills(inv), Example: "  palyra skills show demo",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.Skill(ctx, args[0])
			return inv.Answer(err, whole(s), func(w io.Writer) { printSkill(w, s) })
		}),
	}
}

func quarantineCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "quarantine ID", Short: "Take the tools of a skill away, until it is enabled again", Args: syntax.Takes("ID"),
		Long:              "The tools are gone at once. Calls of them that are under way are ended.",
		ValidArgsFunction: completeSkills(inv), Example: "  palyra skills quarantine demo",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.QuarantineSkill(ctx, args[0])
			return inv.Answer(err, whole(s), func(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", show.Line(s.ID), show.Line(string(s.State))) })
		}),
	}
}

func removeCommand(inv *invocation.Invocation) *cobra.Command {
	var forget bool
	cmd := &cobra.Command{
		Use: "remove ID", Short: "Remove a skill", Args: syntax.Takes("ID"), ValidArgsFunction: completeSkills(inv),
		Long: "Removes a skill with its package, and ends its calls under way. Its id stays with its\n" +
			"publisher: nobody else's skill can take it. What it stored stays too, for when it is\n" +
			"installed again. --forget lets go of the id, and removes what it stored.",
		Example: "  palyra skills remove demo\n  palyra skills remove demo --forget",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			err := c.RemoveSkill(ctx, args[0], forget)
			return inv.Answer(err, map[string]string{"id": args[0]}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: removed\n", show.Line(args[0]))
				if !forget {
					inv.Say("palyra: its id stays its publisher's, and what it stored stays: palyra skills remove %s --forget lets go of both",
						show.Arg(args[0]))
				}
			})
		}),
	}
	cmd.Flags().BoolVar(&forget, "forget", false, "remove what it stored; another publisher may have the id from then on")
	return cmd
}

func shrinkCommand(inv *invocation.Invocation) *cobra.Command {
	var apply bool
	cmd := &cobra.Command{
		Use: "shrink ID", Short: "Say what the recorded runs of a skill needed, and grant no more", Args: syntax.Takes("ID"),
		ValidArgsFunction: completeSkills(inv),
		Long: "Compares what a skill was granted with what its runs used, since this package of it was\n" +
			"installed. With --apply it is granted that and nothing else from then on.",
		Example: "  palyra skills shrink demo\n  palyra skills shrink demo --apply",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.ShrinkSkill(ctx, args[0], apply)
			return inv.Answer(err, s, func(w io.Writer) { printShrinking(inv, w, s) })
		}),
	}
	cmd.Flags().BoolVar(&apply, "apply", false, "grant that, and nothing else")
	return cmd
}

func printShrinking(inv *invocation.Invocation, w io.Writer, s skill.Shrinking) {
	pairs := []screen.Pair{{"Skill", s.ID}, {"Runs", fmt.Sprint(s.Runs)}}
	for _, line := range s.Needed.Lines() {
		pairs = append(pairs, screen.Pair{"Needed", line})
	}
	unused := s.Granted.Missing(s.Needed)
	if len(unused) > 0 {
		pairs = append(pairs, screen.Pair{"Unused", strings.Join(unused, ", ")})
	}
	screen.Fields(w, pairs...)
	switch {
	case s.Applied:
		inv.Say("palyra: what was unused is not granted any more")
	case len(unused) > 0:
		inv.Say("palyra: take it back: palyra skills shrink %s --apply", show.Arg(s.ID))
	case s.Granted.Empty():
		inv.Say("palyra: it was granted nothing, so there is nothing to take back")
	default:
		inv.Say("palyra: everything that was granted was needed")
	}
}
