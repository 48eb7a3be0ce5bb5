package evidence

import (
	"cmp"
	"context"
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

// Attest is `palyra attest`.
func Attest(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("attest", "Show and check attestations of what ran", attestShowCommand(inv), attestVerifyCommand(inv))
}

func attestShowCommand(inv *invocation.Invocation) *cobra.Command {
	var envelope bool
	cmd := &cobra.Command{
		Use: "show REF", Short: "Show an attestation by its id, its digest or its call's id", Args: syntax.Takes("REF"),
		Example: "  palyra attest show 01J9Z8Q2V5T6Y7W8X9A0B1C2D3\n  palyra attest show sha256:… --envelope > envelope.json",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			at, err := findAttestation(ctx, c, args[0])
			if err != nil {
				return err
			}
			if envelope {
				return inv.PrintJSON(at.Envelope)
			}
			return inv.Emit(at, func(w io.Writer) { printPredicate(w, at) })
		}),
	}
	cmd.Flags().BoolVar(&envelope, "envelope", false, "print the signed envelope only")
	return cmd
}

// findAttestation looks a reference up: a digest, else the id of a call, else the attestation's own.
func findAttestation(ctx context.Context, c *client.Client, ref string) (palyra.Attestation, error) {
	if d := palyra.Digest(ref); d.Valid() {
		return c.Attestation(ctx, client.AttestationRef{Digest: d})
	}
	at, err := c.Attestation(ctx, client.AttestationRef{Call: palyra.CallID(ref)})
	if palyra.CodeOf(err) != palyra.NotFound {
		return at, err
	}
	return c.Attestation(ctx, client.AttestationRef{ID: palyra.ID(ref)})
}

func printPredicate(w io.Writer, at palyra.Attestation) {
	p := at.Predicate
	decided := "policy alone"
	if p.Decision != nil {
		decided = fmt.Sprintf("%s, scope %s, by %s", p.Decision.Answer, p.Decision.Scope, p.Decision.By)
	}
	screen.Fields(w, screen.Pair{"Attestation", string(at.ID)}, screen.Pair{"Digest", string(at.Digest)},
		screen.Pair{"Call", string(p.CallID)}, screen.Pair{"Session", string(p.SessionID)},
		screen.Pair{"Tool", string(p.Tool)}, screen.Pair{"Principal", string(p.Principal)},
		screen.Pair{"Surface", string(p.Surface)}, screen.Pair{"Plan digest", string(p.PlanDigest)},
		screen.Pair{"Verdict", p.Verdict.String()}, screen.Pair{"Policies", screen.Joined(p.Policies)},
		screen.Pair{"Decided", decided}, screen.Pair{"Separation", string(p.Separation)},
		screen.Pair{"Tier", string(p.Tier)}, screen.Pair{"Executor", p.Executor},
		screen.Pair{"Network", string(p.Enforcement.Mode)}, screen.Pair{"Held by", screen.Joined(p.Enforcement.Mechanisms)},
		screen.Pair{"Limits", heldLimits(p.Enforcement.Limits)},
		screen.Pair{"NOT enforced", looseLimits(p.Enforcement.Limits)}, screen.Pair{"Outcome", string(p.Outcome)},
		screen.Pair{"Exit code", fmt.Sprint(p.ExitCode)}, screen.Pair{"Signal", p.Signal},
		screen.Pair{"Started", screen.Second(p.StartedAt)}, screen.Pair{"Finished", screen.Second(p.FinishedAt)},
		screen.Pair{"Journal position", fmt.Sprint(p.Granted.Seq)})
	printFlows(w, p)
	for _, path := range p.Quarantined {
		fmt.Fprintf(w, "quarantined: %s\n", screen.Path(path))
	}
	for _, text := range p.Left {
		fmt.Fprintf(w, "left behind: %s\n", show.Line(text))
	}
}

// heldLimits says how each limit is kept.
func heldLimits(limits map[string]palyra.Hold) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		out = append(out, name+"="+string(limits[name]))
	}
	return strings.Join(out, " ")
}

// looseLimits names the limits that the kernel does not keep.
func looseLimits(limits map[string]palyra.Hold) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		switch how := limits[name]; how {
		case palyra.HoldPolled:
			out = append(out, name+" (only counted now and then)")
		case palyra.HoldNone, "":
			out = append(out, name+" (not limited)")
		}
	}
	return strings.Join(out, ", ")
}

// printFlows prints the hosts that a run reached and those that it was refused.
func printFlows(w io.Writer, p palyra.Predicate) {
	if len(p.Egress) == 0 {
		return
	}
	var rows [][]string
	for _, f := range p.Egress {
		verdict := string(f.Verdict)
		if f.Grant != "" {
			verdict += " by " + string(f.Grant)
		}
		rows = append(rows, []string{screen.Endpoint(f), verdict, f.Door, f.Address, fmt.Sprint(f.In), fmt.Sprint(f.Out)})
	}
	fmt.Fprintln(w)
	screen.Table(w, []string{"HOST", "VERDICT", "DOOR", "ADDRESS", "BYTES IN", "BYTES OUT"}, rows)
	if p.EgressOmitted > 0 {
		fmt.Fprintf(w, "and %d connections that are not listed\n", p.EgressOmitted)
	}
}

func attestVerifyCommand(inv *invocation.Invocation) *cobra.Command {
	var keys, operators []string
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Check an attestation, or a whole outcome; needs no daemon", Args: syntax.Takes("FILE"),
		Long: "Checks an envelope, or the outcome that `palyra tools call --json` printed, against\n" +
			"the keys you trust. Any change but white space between tokens is found. - reads stdin.",
		Example: "  palyra attest verify outcome.json --key trust.json\n" +
			"  palyra attest verify outcome.json --key trust.json --operator-key BASE64",
		RunE: func(_ *cobra.Command, args []string) error {
			trust, err := readTrust(keys)
			if err != nil {
				return err
			}
			for _, key := range operators {
				if !public(key) {
					return exit.Usagef("--operator-key %q is not an Ed25519 public key in base64", key)
				}
			}
			raw, err := readFile(inv, args[0], evidence.MaxAttestation)
			if err != nil {
				return err
			}
			report, err := evidence.VerifyAttestation(raw, trust.WithOperators(operators...))
			if err != nil {
				return exit.Unproven(aboutForm(raw, err))
			}
			return inv.Emit(goodAttestation{true, report}, func(w io.Writer) { printAttestReport(w, report) })
		},
	}
	keyFlag(cmd, &keys)
	cmd.Flags().StringArrayVar(&operators, "operator-key", nil, "an approver's public key in base64 that you trust; may be repeated "+
		"(default: the approvers' keys are taken as they come, with a warning)")
	return cmd
}

// goodAttestation is a report with a field that says that the check succeeded, as the other checks have.
type goodAttestation struct {
	OK bool `json:"ok"`
	evidence.AttestationReport
}

func printAttestReport(w io.Writer, r evidence.AttestationReport) {
	fmt.Fprintf(w, "good: the %s is what %s signed\n", show.Line(r.Form), show.Line(r.KeyID))
	decided := screen.Joined(r.DecidedBy)
	decided = cmp.Or(decided, "policy alone")
	screen.Fields(w, screen.Pair{"Call", string(r.CallID)}, screen.Pair{"Tool", string(r.Tool)},
		screen.Pair{"Principal", string(r.Principal)}, screen.Pair{"Plan digest", string(r.PlanDigest)},
		screen.Pair{"Decided by", decided}, screen.Pair{"Separation", string(r.Separation)},
		screen.Pair{"Tier", string(r.Tier)}, screen.Pair{"Outcome", string(r.Outcome)},
		screen.Pair{"Started", screen.Second(r.StartedAt)}, screen.Pair{"Finished", screen.Second(r.FinishedAt)},
		screen.Pair{"Checked", screen.Joined(r.Checked)})
	for _, warning := range r.Warnings {
		fmt.Fprintf(w, "warning: %s\n", show.Line(warning))
	}
}
