// Package observe is `palyra observe`: what Palyra would have said to agents' own tools, before it says it.
package observe

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// Hook is what is known of the hook of an agent that is on this machine.
type Hook struct {
	Agent string `json:"agent"`
	Title string `json:"-"`
	File  string `json:"file"`
	State string `json:"hook"` // installed, none, off, or other: an entry names the hook, and is another than is written
	// Observed is set where it asks to be observed.
	Observed bool `json:"observe"`
}

// Command is `palyra observe`. Hooks are those of the person's own settings.
func Command(inv *invocation.Invocation, hooks func() []Hook) *cobra.Command {
	cmd := syntax.Parent("observe", "See what Palyra would say to agents' own tools, before it does",
		startCommand(inv, hooks), statusCommand(inv), reportCommand(inv), enforceCommand(inv, hooks))
	cmd.Long = "For agents that keep their own tools and ask a hook before each use. While calls are\n" +
		"observed, a hook that was installed for it judges and records them and holds nothing:\n" +
		"nobody is asked, nothing is blocked, and no call is rewritten. It takes an operator's\n" +
		"signature and ends by itself. Palyra's own tools and 'palyra exec' are never observed:\n" +
		"they are held as ever."
	return cmd
}

func startCommand(inv *invocation.Invocation, hooks func() []Hook) *cobra.Command {
	span := screen.SpanFlag(palyra.MaxObserved)
	cmd := &cobra.Command{
		Use: "start", Short: "Have calls of agents' own tools observed and not held", Args: syntax.Takes(),
		Example: "  palyra observe start\n  palyra observe start --for 24h",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			o, err := c.SetObservation(ctx, time.Duration(span))
			return inv.Answer(err, o, func(w io.Writer) {
				printObservation(w, o)
				if inv.RemoteName() == "" {
					printHeld(w, hooks())
				}
			})
		}),
	}
	cmd.Flags().Var(&span, "for", "how long, 7 days at most")
	return cmd
}

func statusCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say whether calls are observed or held", Args: syntax.Takes(), Example: "  palyra observe status",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			o, err := c.Observation(ctx)
			return inv.Answer(err, o, func(w io.Writer) { printObservation(w, o) })
		}),
	}
}

func enforceCommand(inv *invocation.Invocation, hooks func() []Hook) *cobra.Command {
	return &cobra.Command{
		Use: "enforce", Short: "Have calls of agents' own tools held again, from now on", Args: syntax.Takes(),
		Long: "Ends observing, and says of each agent on your path whether its settings still have the hook:\n" +
			"while calls were observed an agent could write its own settings, and without a hook nothing\n" +
			"of it is held. 'palyra hook doctor' tries it with the agent itself.",
		Example: "  palyra observe report\n  palyra observe enforce",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			o, err := c.SetObservation(ctx, 0)
			if inv.RemoteName() != "" { // its agents' settings are not on this machine
				return inv.Answer(err, o, func(w io.Writer) { printObservation(w, o) })
			}
			found := hooks()
			return inv.Answer(err, enforced{o, screen.Some(found)}, func(w io.Writer) {
				printObservation(w, o)
				printHooks(w, found)
			})
		}),
	}
}

// enforced is the end of observing, in JSON.
type enforced struct {
	client.Observation
	Hooks []Hook `json:"hooks"`
}

// printHeld says which agents are held all the same: their hooks do not ask to be observed.
func printHeld(w io.Writer, all []Hook) {
	observed := false
	for _, h := range all {
		if observed = observed || h.Observed; h.State == "installed" && !h.Observed {
			fmt.Fprintf(w, "%s: held all the same: its hook has no --observe; palyra hook install %s --observe\n", h.Title, h.Agent)
		}
	}
	if !observed {
		fmt.Fprintln(w, "no hook in your own settings asks to be observed, so nothing of an agent is: palyra hook install AGENT --observe")
	}
}

// printHooks says which agents are held by their hooks.
func printHooks(w io.Writer, all []Hook) {
	for _, h := range all {
		says := "the hook is in " + show.Arg(h.File)
		if h.State != "installed" {
			why := map[string]string{"off": "hooks are switched off by", "other": "a hook that is not as it was installed is in"}[h.State]
			says = "NOT HELD: " + cmp.Or(why, "no hook is in") + " " + show.Arg(h.File) + "; palyra hook install " + h.Agent
		}
		fmt.Fprintf(w, "%s: %s\n", h.Title, says)
	}
}

func printObservation(w io.Writer, o client.Observation) {
	if !o.On {
		fmt.Fprintln(w, "calls of agents' own tools are held")
		return
	}
	fmt.Fprintf(w, "calls of agents' own tools are observed and not held, until %s, by %s\n", screen.Stamp(o.Until), show.Line(string(o.By)))
}

func reportCommand(inv *invocation.Invocation) *cobra.Command {
	var since screen.SpanFlag
	cmd := &cobra.Command{
		Use: "report", Short: "Say what would have become of the calls that were observed", Args: syntax.Takes(),
		Long: "Counts the calls that hooks observed: what would have been asked about or refused,\n" +
			"which hosts they named, which files outside of the workspace and which places of\n" +
			"secrets they were about. What a shell's command did is not seen: in the sandbox more\n" +
			"may be asked about once it is (a host, what it changed), and much less before.\n" +
			"'palyra policy suggest' makes rules of it.",
		Example: "  palyra observe report\n  palyra observe report --since 24h --json",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			r, err := gather(ctx, c, time.Duration(since), time.Now())
			return inv.Answer(err, r, func(w io.Writer) { printReport(w, r) })
		}),
	}
	cmd.Flags().Var(&since, "since", "only calls of so long (default: all that are kept)")
	return cmd
}

// calls lists calls.
type calls interface {
	// Calls lists calls, newest first.
	Calls(ctx context.Context, f client.CallFilter) (client.CallPage, error)
}

// gather counts the observed calls, the newest first, back to a time.
func gather(ctx context.Context, c calls, since time.Duration, now time.Time) (Report, error) {
	n := newCounter()
	f := client.CallFilter{State: palyra.Observed, Limit: 500}
	for {
		page, err := c.Calls(ctx, f)
		if err != nil {
			return Report{}, err
		}
		for i := range page.Calls {
			if since > 0 && page.Calls[i].Proposed.Before(now.Add(-since)) {
				return n.Report(), nil
			}
			n.Add(&page.Calls[i])
		}
		if page.Next == "" {
			return n.Report(), nil
		}
		f.Cursor = page.Next
	}
}

func printReport(w io.Writer, r Report) {
	if r.Calls == 0 {
		fmt.Fprintln(w, "no call was observed yet. That takes a hook in the agent's settings (palyra hook install AGENT --observe),\n"+
			"'palyra observe start', and an agent that uses its tools")
		return
	}
	fmt.Fprintf(w, "%s from %s to %s: %d would have run unasked, %d under an answer that was there,\n"+
		"%d would have been asked about, %d refused\n", screen.Count(r.Calls, "call"), screen.Stamp(r.Since), screen.Stamp(r.Until), r.Allowed,
		r.Covered, r.Asked, r.Refused)
	if len(r.Kinds) > 0 {
		fmt.Fprintln(w)
		rows := make([][]string, 0, len(r.Kinds))
		for _, k := range r.Kinds {
			rows = append(rows, []string{strconv.FormatInt(k.Count, 10), k.Would, string(k.Tool), k.Why, k.Example})
		}
		screen.Table(w, []string{"CALLS", "WOULD", "TOOL", "WHY", "SUCH AS"}, rows)
	}
	for _, part := range []struct {
		title string
		list  []Tally
	}{{"hosts", r.Hosts}, {"files outside of the workspace", r.Outside}, {"secrets", r.Secrets}} {
		if len(part.list) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s:\n", part.title)
		for _, t := range part.list {
			fmt.Fprintf(w, "  %5d  %s\n", t.Count, show.Line(t.Name))
		}
	}
	if r.Omitted > 0 {
		fmt.Fprintf(w, "\n%d more are not listed\n", r.Omitted)
	}
	fmt.Fprintln(w, "\nnext: palyra policy suggest (rules for what would be asked about), then palyra observe enforce")
}
