// Package leases is the commands about what stands allowed: each lease with its terms, how long it lasts and who gave it,
// and its end. The terminal UI revokes by them as well.
package leases

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/question"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// Command is `palyra leases`.
func Command(inv *invocation.Invocation) *cobra.Command {
	cmd := syntax.Parent("leases", "See and revoke what stands allowed",
		listCommand(inv), showCommand(inv), revokeCommand(inv))
	cmd.Aliases = []string{"grants"} // their former name, for one version
	return cmd
}

func listCommand(inv *invocation.Invocation) *cobra.Command {
	var f client.LeaseFilter
	var principal, session string
	cmd := &cobra.Command{
		Use: "list", Short: "List leases", Args: syntax.Takes(),
		Example: "  palyra leases list\n  palyra leases list --all --principal agent:local --json",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			f.Principal, f.Session = palyra.Principal(principal), palyra.SessionID(session)
			page, err := c.Leases(ctx, f)
			if err != nil {
				return err
			}
			all := leasePage(ctx, c, page)
			return invocation.Page[leaseJSON]{
				JSON: all, Things: all.Leases, Next: page.Next,
				Head: []string{"LEASE", "SCOPE", "STATE", "USES LEFT", "FOR", "COVERS", screen.SummaryColumn},
				Row: func(l leaseJSON) []string {
					return []string{
						string(l.ID), string(l.Scope), leaseState(inv, l.Lease), uses(l.UsesLeft), string(l.Terms.Principal),
						question.Covers(l.Terms), l.Summary,
					}
				},
			}.Show(inv)
		}),
	}
	cmd.Flags().BoolVar(&f.Ended, "all", false, "also those that ended")
	cmd.Flags().StringVar(&principal, "principal", "", "only those of this principal")
	cmd.Flags().StringVar(&session, "session", "", "only those of this session")
	syntax.Paging(cmd, &f.Cursor, &f.Limit)
	_ = cmd.RegisterFlagCompletionFunc("session", inv.CompleteSessions)
	return cmd
}

// leaseJSON is a lease in JSON: under its own name, and for one version also under the former one, grant_id.
type leaseJSON struct {
	LeaseID palyra.LeaseID `json:"lease_id"`
	palyra.Lease
	Summary string `json:"summary,omitempty"` // of the call that was asked about, where a lease covers that call alone
}

// leaseOf finds the words of a lease: one of a single plan says by its terms only which digest it has.
func leaseOf(ctx context.Context, c *client.Client, l palyra.Lease) leaseJSON {
	out := leaseJSON{LeaseID: l.ID, Lease: l}
	if l.Terms.PlanDigest != "" {
		if a, err := c.Approval(ctx, l.Approval); err == nil {
			out.Summary = a.Prompt.Summary
		}
	}
	return out
}

// leasesJSON is a page of leases in JSON. Grants is the former name of the list.
type leasesJSON struct {
	Leases []leaseJSON `json:"leases"`
	Grants []leaseJSON `json:"grants"`
	Next   string      `json:"next_cursor"`
}

func leasePage(ctx context.Context, c *client.Client, p client.LeasePage) leasesJSON {
	list := make([]leaseJSON, 0, len(p.Leases))
	for _, l := range p.Leases {
		list = append(list, leaseOf(ctx, c, l))
	}
	return leasesJSON{list, list, p.Next}
}

// leaseState says whether a lease is live and for how long.
func leaseState(inv *invocation.Invocation, l palyra.Lease) string {
	switch {
	case l.Ended != "":
		return string(l.Ended)
	case !l.ExpiresAt.IsZero():
		return "live " + screen.Left(l.ExpiresAt, inv.Now())
	}
	return "live"
}

func uses(n int64) string {
	if n < 0 {
		return "no count"
	}
	return strconv.FormatInt(n, 10)
}

func printLease(inv *invocation.Invocation, l leaseJSON) error {
	return inv.Emit(l, func(w io.Writer) {
		screen.Fields(w, screen.Pair{"Lease", string(l.ID)}, screen.Pair{screen.SummaryField, l.Summary},
			screen.Pair{"State", leaseState(inv, l.Lease)},
			screen.Pair{"Scope", string(l.Scope)}, screen.Pair{"Uses left", uses(l.UsesLeft)},
			screen.Pair{"Granted by", string(l.By)}, screen.Pair{"Approval", string(l.Approval)},
			screen.Pair{"Created", screen.Stamp(l.CreatedAt)}, screen.Pair{"Expires", screen.Stamp(l.ExpiresAt)},
			screen.Pair{"Revoked", screen.Stamp(l.RevokedAt)}, screen.Pair{"Revoked by", string(l.RevokedBy)},
			screen.Pair{"Principal", string(l.Terms.Principal)}, screen.Pair{"Session", string(l.Terms.Session)},
			screen.Pair{"Tool", string(l.Terms.Tool)}, screen.Pair{"Plan digest", string(l.Terms.PlanDigest)},
			screen.Pair{"Workspace", l.Terms.Workspace}, screen.Pair{"Program", l.Terms.Program},
			screen.Pair{"Tools", screen.Joined(l.Terms.Tools)}, screen.Pair{"Path root", l.Terms.PathRoot},
			screen.Pair{"Read root", l.Terms.ReadRoot}, screen.Pair{"Tier at least", string(l.Terms.TierFloor)},
			screen.Pair{"Hosts", screen.Joined(l.Terms.Hosts)}, screen.Pair{"Group", l.Terms.Group},
			screen.Pair{"Group digest", string(l.Terms.GroupDigest)}, screen.Pair{"Within", screen.Joined(l.Terms.Within)})
	})
}

func showCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a lease and its terms", Args: syntax.Takes("ID"), ValidArgsFunction: complete(inv),
		Example: "  palyra leases show 01J9Z8Q2V5T6Y7W8X9A0B1C2D3",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			l, err := c.Lease(ctx, palyra.LeaseID(args[0]))
			if err != nil {
				return err
			}
			return printLease(inv, leaseOf(ctx, c, l))
		}),
	}
}

func revokeCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End a lease; running work that depends on it is stopped", Args: syntax.Takes("ID"),
		ValidArgsFunction: complete(inv),
		Example:           "  palyra leases revoke 01J9Z8Q2V5T6Y7W8X9A0B1C2D3",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			l, err := c.RevokeLease(ctx, palyra.LeaseID(args[0]))
			return inv.Answer(err, leaseJSON{LeaseID: l.ID, Lease: l}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s\n", show.Line(string(l.ID)),
					show.Line(leaseState(inv, l)))
			})
		}),
	}
}

func complete(inv *invocation.Invocation) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return invocation.Offer(cmd, inv.Operator, func(ctx context.Context, c *client.Client) ([]string, error) {
			page, err := c.Leases(ctx, client.LeaseFilter{Limit: 50})
			return invocation.WordsOf(page.Leases, err, func(l palyra.Lease) string { return string(l.ID) })
		})
	}
}
