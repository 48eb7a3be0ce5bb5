package evidence

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// tailEntries is how many entries tail shows by default.
const tailEntries = 20

func journalTailCommand(inv *invocation.Invocation) *cobra.Command {
	var r client.TailRequest
	var call string
	cmd := &cobra.Command{
		Use: "tail", Short: "Print the last journal entries; -f follows", Args: syntax.Takes(),
		Long: fmt.Sprintf("Prints the last %d entries, or the last N of -n, in order. --from starts at an entry\n"+
			"instead and goes on to the end, or for N entries. With -f it goes on as entries\n"+
			"arrive, until Ctrl-C. With --json there is one object per line, with every field.", tailEntries),
		Example: "  palyra journal tail -f\n  palyra journal tail -n 100\n  palyra journal tail --from 1 --kind approval.decided --json\n" +
			"  palyra journal tail --call 01J9Z8Q2V5T6Y7W8X9A0B1C2D3",
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.From < 0 || r.Limit < 0 {
				return exit.Usagef("--from and -n must not be negative")
			}
			none := r.Limit == 0 && cmd.Flags().Changed("limit")
			if err := checkKind(r.Kind); err != nil {
				return err
			}
			r.Call = palyra.CallID(call)
			return inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
				if none {
					return tailNone(ctx, inv, c, r)
				}
				return tail(ctx, inv, c, r)
			})(cmd, args)
		},
	}
	f := cmd.Flags()
	f.Int64Var(&r.From, "from", 0, "first sequence number (default: that of the last entries)")
	f.StringVar(&r.Kind, "kind", "", "only this kind of entry")
	f.StringVar(&call, "call", "", "only this call")
	f.Int64VarP(&r.Limit, "limit", "n", 0, fmt.Sprintf("how many of the last entries, or how many from --from (default %d, or all)",
		tailEntries))
	f.BoolVarP(&r.Follow, "follow", "f", false, "go on as entries arrive")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kindNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func kindNames() []string {
	var out []string
	for _, e := range palyra.Catalogue() {
		out = append(out, e.Kind())
	}
	return out
}

// checkKind refuses a kind that no entry can have: an empty result would look like an answer.
func checkKind(kind string) error {
	known := kindNames()
	if kind == "" || slices.Contains(known, kind) {
		return nil
	}
	near := syntax.Nearest(kind, known)
	if len(near) == 0 {
		near = known
	}
	return exit.Usagef("there are no entries of kind %q; there are %s", kind, strings.Join(near, ", "))
}

// tail prints the entries that a request selects.
func tail(ctx context.Context, inv *invocation.Invocation, c *client.Client, r client.TailRequest) error {
	n := 0
	put := func(e palyra.Entry) error {
		n++
		return inv.Emit(e, func(w io.Writer) { fmt.Fprintln(w, entryLine(e)) })
	}
	var err error
	if r.From == 0 {
		err = printTail(ctx, c, r, put)
	} else {
		err = c.TailJournal(ctx, r, put)
	}
	if err == nil && n == 0 && !inv.JSON {
		inv.Say("palyra: there are no such entries")
	}
	return err
}

// tailNone skips the existing entries: it prints nothing, or with -f the ones that come.
func tailNone(ctx context.Context, inv *invocation.Invocation, c *client.Client, r client.TailRequest) error {
	head, err := c.Head(ctx)
	if err != nil || !r.Follow {
		return err
	}
	r.From = max(r.From, head.Size+1)
	return tail(ctx, inv, c, r)
}

// printTail prints the last entries of a request and, with -f, those that come, without a gap.
func printTail(ctx context.Context, c *client.Client, r client.TailRequest, put func(palyra.Entry) error) error {
	head, err := c.Head(ctx)
	if err != nil {
		return err
	}
	want := r.Limit
	want = cmp.Or(want, tailEntries)
	r.Limit, r.From = 0, max(head.Size-want+1, 1)
	if r.Kind != "" || r.Call != "" {
		if r.From, err = lastOf(ctx, c, r, head.Size, want); err != nil || r.From > head.Size && !r.Follow {
			return err
		}
	}
	return c.TailJournal(ctx, r, put)
}

// lastOf finds where the last entries that pass a filter start: behind the end if there are none.
func lastOf(ctx context.Context, c *client.Client, r client.TailRequest, size, want int64) (int64, error) {
	r.From, r.Follow = 1, false
	var seqs []int64
	err := c.TailJournal(ctx, r, func(e palyra.Entry) error {
		if seqs = append(seqs, e.Seq); int64(len(seqs)) > want {
			seqs = seqs[1:]
		}
		return nil
	})
	if len(seqs) == 0 {
		return size + 1, err
	}
	return seqs[0], err
}

// entryFields are the fields of an entry's body that a line shows, in their order, with their
// names. The rest is for --json.
var entryFields = []struct{ path, name string }{
	{"call_id", "call"},
	{"run_id", "run"},
	{"approval_id", "approval"},
	{"vote.approval_id", "approval"},
	{"lease_id", "lease"},
	{"session_id", "session"},
	{"state_id", "state"},
	{"tool", "tool"},
	{"effect", "verdict"},
	{"layer", "layer"},
	{"outcome", "outcome"},
	{"exit_code", "exit"},
	{"answer", "answer"},
	{"vote.answer", "answer"},
	{"scope", "scope"},
	{"state", "state"},
	{"why", "why"},
	{"reversal", "reversal"},
	{"result", "result"},
	{"principal", "principal"},
	{"by", "by"},
	{"vote.by", "by"},
	{"workspace", "workspace"},
	{"workspace.path", "workspace"},
	{"path", "path"},
	{"agent.principal", "agent"},
	{"agent.owner", "owner"},
	{"operator.principal", "operator"},
	{"operator.role", "role"},
	{"operator.key_id", "key"},
	{"pairing_id", "pairing"},
	{"device_id", "device"},
	{"device.device_id", "device"},
	{"device.name", "name"},
	{"device.principal", "principal"},
	{"device.role", "role"},
	{"user.principal", "user"},
	{"user.role", "role"},
	{"token_id", "token"},
	{"token.token_id", "token"},
	{"token.name", "name"},
	{"token.principal", "principal"},
	{"name", "name"},
	{"role", "role"},
	{"address", "address"},
	{"tries", "tries"},
	{"use", "use"},
	{"key.use", "use"},
	{"key.key_id", "key"},
	{"key_id", "key"},
	{"door", "door"},
	{"version", "version"},
	{"method", "method"},
	{"from", "from"},
	{"to", "to"},
	{"count", "count"},
	{"attestation_id", "attestation"},
	{"reason_code", "reason"},
}

// entryLine is a journal entry on one line: what happened, to what, by whom. Free text comes last,
// where it cannot be taken for another field.
func entryLine(e palyra.Entry) string {
	var words []string
	for _, f := range entryFields {
		if text := fieldText(e.Body, f.path); text != "" && (f.name != "exit" || text != "0") {
			words = append(words, f.name+"="+show.Arg(palyra.Clip(text, screen.CellWidth)))
		}
	}
	if text := fieldText(e.Body, "reason"); text != "" {
		words = append(words, "because "+show.Middle(text, screen.CellWidth))
	}
	return fmt.Sprintf("%6d  %s  %-20s  %s", e.Seq, entryTime(e.Time), show.Line(e.Kind), strings.Join(words, " "))
}

// fieldText is the text of a plain field; "" if it is missing.
func fieldText(body map[string]any, path string) string {
	name, rest, deeper := strings.Cut(path, ".")
	if deeper {
		inner, _ := body[name].(map[string]any)
		return fieldText(inner, rest)
	}
	switch v := body[name].(type) {
	case string:
		return v
	case nil, map[string]any, []any:
		return ""
	default:
		return fmt.Sprint(v)
	}
}

// entryTime is an entry's time to the millisecond, in a fixed width.
func entryTime(text string) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return show.Line(text)
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
