package evidence

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/client/evidence"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// Sandbox is `palyra sandbox`, with the command that lists profiles.
func Sandbox(inv *invocation.Invocation, profiles *cobra.Command) *cobra.Command {
	return syntax.Parent("sandbox", "What the sandbox tiers of this machine really hold",
		sandboxDoctorCommand(inv), sandboxPostureCommand(inv), sandboxVerifyCommand(inv), profiles)
}

func sandboxDoctorCommand(inv *invocation.Invocation) *cobra.Command {
	var tier, workspace string
	var tools bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Try the sandbox tiers out from inside", Args: syntax.Takes(),
		Long: "Has the daemon run a program in each tier that tries to get out: to read a planted\n" +
			"secret, to reach planted listeners and sockets, to take more memory and processes\n" +
			"than it may, and more. Prints what held, and what to do about what did not. The\n" +
			"result is signed and kept; attestations carry its digest. Ends with 1 when\n" +
			"something did not hold. Last it says of each registered workspace whether runs write\n" +
			"to a stage there, and why where they do not.\n\n" +
			"With --tools it runs the programs that the files of a workspace call for instead\n" +
			"(node, python3, go, cargo, make and more), inside, and names those that do not work\n" +
			"there, with what to do. Ends with 1 when there are any.",
		Example: "  palyra sandbox doctor\n  palyra sandbox doctor --tier c --json\n  palyra sandbox doctor --tools",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if tools {
			return tryTools(cmd.Context(), inv, workspace)
		}
		return inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			tiers, err := tierFlag(tier)
			if err != nil {
				return err
			}
			p, err := c.RunDoctor(ctx, tiers...)
			if err != nil {
				return err
			}
			return printDoctor(inv, p, func(w io.Writer) { printStages(ctx, c, w) })
		})(cmd, args)
	}
	cmd.Flags().BoolVar(&tools, "tools", false, "run the programs that a workspace takes inside, and name what is missing")
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "with --tools: the workspace (default: the one around the current directory)")
	cmd.Flags().StringVar(&tier, "tier", "", "try only this tier: b or c (default: all)")
	cmd.MarkFlagsMutuallyExclusive("tools", "tier")
	_ = cmd.RegisterFlagCompletionFunc("tier", cobra.FixedCompletions([]string{"b", "c"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// tierFlag reads --tier.
func tierFlag(text string) ([]palyra.Tier, error) {
	switch strings.ToLower(text) {
	case "":
		return nil, nil
	case "b":
		return []palyra.Tier{palyra.TierB}, nil
	case "c":
		return []palyra.Tier{palyra.TierC}, nil
	}
	return nil, exit.Usagef("--tier %q is neither b nor c", text)
}

// mostStages is how many workspaces the doctor looks at.
const mostStages = 20

// printStages says of registered workspaces whether the writes of runs in tier C are staged there: a run like any other is planned.
func printStages(ctx context.Context, c *client.Client, w io.Writer) {
	all, err := c.Workspaces(ctx)
	if err != nil || len(all) == 0 {
		return
	}
	fmt.Fprintln(w, "\nStages")
	for _, at := range all[:min(len(all), mostStages)] {
		e, err := c.Why(ctx, client.WhyRequest{
			Tool: palyra.ToolProcessRun, Arguments: json.RawMessage(`{"command":"/bin/true","tier":"c"}`), Workspace: at.Path,
		})
		text := "staged: what a run changes is judged before it is kept"
		switch {
		case err != nil:
			text = "not known: " + palyra.AsError(err).Text
		case e.Plan.Tool == "":
			text = "not known: " + e.Reason
		case !e.Plan.Staging.Staged():
			text = "not staged, runs write to it directly: " + cmp.Or(e.Plan.Staging.Why, "process.stage is not all")
		}
		fmt.Fprintf(w, "  %s  %s\n", show.Arg(at.Path), show.Line(text))
	}
}

// printDoctor prints a posture, and more for people, and fails when something did not hold.
func printDoctor(inv *invocation.Invocation, p palyra.SignedPosture, more func(io.Writer)) error {
	err := inv.Emit(p, func(w io.Writer) {
		printPosture(w, p)
		more(w)
	})
	if err != nil {
		return err
	}
	if !p.Posture.Held() {
		return exit.Error{Code: exit.Failure} // the table shows what failed
	}
	return nil
}

func printPosture(w io.Writer, p palyra.SignedPosture) {
	for _, t := range p.Posture.Tiers {
		printTier(w, t)
		fmt.Fprintln(w)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Posture.Facts)) {
		if value := p.Posture.Facts[name]; value != "" {
			fmt.Fprintf(w, "%s: %s\n", show.Line(name), show.Line(value))
		}
	}
	fmt.Fprintf(w, "at: %s\n", screen.Second(p.Posture.At))
	if !p.Current {
		fmt.Fprintln(w, "NOT CURRENT: the machine has changed since; run palyra sandbox doctor")
	}
	fmt.Fprintf(w, "%s\n", show.Line(string(p.Digest)))
}

func printTier(w io.Writer, t palyra.TierPosture) {
	name := show.Line(string(t.Tier))
	if !t.Available {
		fmt.Fprintf(w, "Tier %s: NOT AVAILABLE: %s\n", name, show.Line(t.Text))
		remedy(w, t.Remedy)
		return
	}
	failed := len(t.Failed())
	switch {
	case failed > 0:
		fmt.Fprintf(w, "Tier %s: %d of %d probes DID NOT HOLD\n", name, failed, len(t.Probes))
	default:
		fmt.Fprintf(w, "Tier %s: all %d probes held\n", name, len(t.Probes))
	}
	var rows [][]string
	for _, pr := range t.Probes {
		held := "held"
		if !pr.Held {
			held = "NOT HELD"
		}
		rows = append(rows, []string{pr.Name, held, pr.Detail})
	}
	screen.Table(w, []string{"PROBE", "RESULT", "DETAIL"}, rows)
	var limits []string
	for _, limit := range slices.Sorted(maps.Keys(t.Limits)) {
		limits = append(limits, limit+" "+string(t.Limits[limit]))
	}
	screen.Fields(w, screen.Pair{"Network", string(t.Mode)}, screen.Pair{"Limits", screen.Joined(limits)},
		screen.Pair{"Mechanisms", screen.Joined(t.Mechanisms)})
	var said []string
	for _, pr := range t.Probes {
		if !pr.Held && !slices.Contains(said, pr.Remedy) {
			said = append(said, pr.Remedy)
			remedy(w, pr.Remedy)
		}
	}
	for _, n := range t.Notes {
		fmt.Fprintf(w, "  note: %s\n", show.Line(n))
	}
}

func remedy(w io.Writer, text string) {
	if text != "" {
		fmt.Fprintf(w, "  remedy: %s\n", show.Line(text))
	}
}

func sandboxPostureCommand(inv *invocation.Invocation) *cobra.Command {
	var envelope bool
	cmd := &cobra.Command{
		Use: "posture [DIGEST]", Short: "Show what the doctor found last, or one result by its digest", Args: syntax.Takes("[DIGEST]"),
		Example: "  palyra sandbox posture\n  palyra sandbox posture sha256:… --envelope > posture.json",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			digest := palyra.Digest(strings.Join(args, ""))
			if len(args) > 0 && !digest.Valid() {
				return exit.Usagef("%q is not a digest", args[0])
			}
			list, err := c.Postures(ctx, digest)
			if err != nil {
				return err
			}
			if envelope {
				return printEnvelope(inv, list)
			}
			return inv.Emit(map[string][]palyra.SignedPosture{"postures": screen.Some(list)}, func(w io.Writer) {
				for _, p := range list {
					printPosture(w, p)
				}
				if len(list) == 0 {
					inv.Say("nothing was tried out yet; run `palyra sandbox doctor`")
				}
			})
		}),
	}
	cmd.Flags().BoolVar(&envelope, "envelope", false, "print the signed envelope only")
	return cmd
}

func printEnvelope(inv *invocation.Invocation, list []palyra.SignedPosture) error {
	if len(list) != 1 {
		return exit.Failedf(palyra.ReasonNotFound, "there are %d postures in force", len(list)).
			WithRemedy("name one by its digest; `palyra sandbox posture` lists them")
	}
	return inv.PrintJSON(list[0].Envelope)
}

func sandboxVerifyCommand(inv *invocation.Invocation) *cobra.Command {
	var keys []string
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Check a signed posture; needs no daemon", Args: syntax.Takes("FILE"),
		Long: "Checks the envelope that `palyra sandbox posture --envelope` printed against the\n" +
			"keys you trust. Any change but white space between tokens is found. - reads stdin.",
		Example: "  palyra sandbox verify posture.json --key trust.json",
		RunE: func(_ *cobra.Command, args []string) error {
			trust, err := readTrust(keys)
			if err != nil {
				return err
			}
			raw, err := readFile(inv, args[0], evidence.MaxPosture)
			if err != nil {
				return err
			}
			p, err := evidence.VerifyPosture(raw, trust)
			if err != nil {
				return exit.Unproven(aboutForm(raw, err))
			}
			return inv.Emit(goodPosture{true, p.Digest, p.Posture.Held(), p.Envelope.Signatures[0].KeyID, p.Posture}, func(w io.Writer) {
				fmt.Fprintf(w, "good: the posture is what %s signed\n", show.Line(p.Envelope.Signatures[0].KeyID))
				p.Current = true // nothing here can show that it is outdated
				printPosture(w, p)
			})
		},
	}
	keyFlag(cmd, &keys)
	return cmd
}

// goodPosture is a posture that was checked.
type goodPosture struct {
	OK      bool           `json:"ok"`
	Digest  palyra.Digest  `json:"digest"`
	Held    bool           `json:"held"`
	KeyID   string         `json:"key_id"`
	Posture palyra.Posture `json:"posture"`
}
