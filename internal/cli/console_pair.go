package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/access"
	"palyra/internal/cli/execute"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// consolePairCommand is `palyra console pair`.
func consolePairCommand(inv *invocation.Invocation) *cobra.Command {
	var role, door string
	cmd := &cobra.Command{
		Use: "pair", Short: "Sign a browser in and give it a key to decide with", Args: syntax.Takes(),
		Long: "Prints a link that signs one browser in: on the daemon's machine, or with --door on another\n" +
			"one. The browser makes a key that nobody can take out of it (by --door plain others can, and\n" +
			"the key only denies), and shows its fingerprint; you compare that with what is shown here,\n" +
			"and answer. A browser that is signed in already takes the PIN instead. Both are good for two\n" +
			"minutes. The key holds for as long as a device's certificate; 'palyra\n" +
			"device list' shows it, 'palyra device revoke' ends it. With --json there is one object per\n" +
			"line, the code in the first, and the answer is given elsewhere ('palyra approvals decide').",
		Example: "  palyra console pair\n  palyra console pair --role operator\n  palyra console pair --door https",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			link, _, err := c.OpenConsoleAt(ctx, door)
			if err != nil {
				return err
			}
			w := &pairWatch{inv: inv, asker: execute.NewAsker(inv, "withdraws the code"), ctx: ctx, link: link, door: door}
			err = c.PairBrowser(ctx, palyra.Role(role), w.see)
			w.leave()
			if err != nil {
				return w.withdrawn(err)
			}
			return w.end()
		}),
	}
	access.DoorFlag(cmd, &door)
	cmd.Flags().StringVar(&role, "role", "", "the most that it may do: approver, viewer, operator, admin, owner, auditor (default approver)")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(access.RoleNames, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// browserLink is a link that signs a browser in and has it use a code. What is behind # is not sent to anybody.
func browserLink(link, code string) string { return link + "#pair=" + code }

// offerBrowser shows the link, and the PIN for a browser that is signed in.
func (w *pairWatch) offerBrowser(p palyra.Pairing) {
	pin := p.PIN
	if len(pin) == 8 {
		pin = pin[:4] + " " + pin[4:]
	}
	fmt.Fprintf(w.inv.Stderr, "Open   %s\nPIN    %s   for a browser that is signed in already\n\n",
		show.Line(browserLink(w.link, p.Code)), show.Line(pin))
	where := map[string]string{
		"": "on the daemon's machine", "https": "that reaches this address", "plain": "that reaches this address, to look and deny only",
	}[w.door]
	w.inv.Say("Good until %s, for one browser %s. Waiting; Ctrl-C withdraws it.", screen.Stamp(p.ExpiresAt), where)
}
