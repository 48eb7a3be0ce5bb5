package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/show"
)

// completionPatience is how long the shell waits for words to offer.
const completionPatience = 2 * time.Second

// source finds words to offer.
type source func(ctx context.Context, c *client.Client) ([]string, error)

// offer asks a daemon for words. Where there is none it offers nothing and
// stays silent.
func offer(cmd *cobra.Command, door func() (*client.Client, error), words source) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	ctx, done := context.WithTimeout(cmd.Context(), completionPatience)
	defer done()
	c, err := door()
	if err != nil {
		return nil, none
	}
	defer c.Close()
	list, err := words(ctx, c)
	if err != nil {
		return nil, none
	}
	return list, none
}

// wordsOf turns a list into words to offer. A word that does not show itself
// honestly is left out: the shell would print it as it is.
func wordsOf[T any](list []T, err error, word func(T) string) ([]string, error) {
	var out []string
	for _, x := range list {
		if w := word(x); show.Line(w) == w {
			out = append(out, w)
		}
	}
	return out, err
}

func (a *app) completeTools(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(cmd, a.agent, func(ctx context.Context, c *client.Client) ([]string, error) {
		tools, err := c.Tools(ctx)
		return wordsOf(tools, err, func(t palyra.Tool) string { return t.Name })
	})
}

func (a *app) completeApprovals(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(cmd, a.operator, func(ctx context.Context, c *client.Client) ([]string, error) {
		page, err := c.Approvals(ctx, client.ApprovalFilter{Limit: 50})
		return wordsOf(page.Approvals, err, func(p palyra.Approval) string { return string(p.ID) })
	})
}

// completeDecide offers what is pending, then the answers.
func (a *app) completeDecide(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return []cobra.Completion{"allow", "allow-edits", "allow-reads", "deny"}, cobra.ShellCompDirectiveNoFileComp
	}
	return offer(cmd, a.operator, func(ctx context.Context, c *client.Client) ([]string, error) {
		page, err := c.Approvals(ctx, client.ApprovalFilter{Pending: true, Limit: 50})
		return wordsOf(page.Approvals, err, func(p palyra.Approval) string { return string(p.ID) })
	})
}

func (a *app) completeGrants(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(cmd, a.operator, func(ctx context.Context, c *client.Client) ([]string, error) {
		page, err := c.Leases(ctx, client.LeaseFilter{Limit: 50})
		return wordsOf(page.Leases, err, func(l palyra.Lease) string { return string(l.ID) })
	})
}

func (a *app) completeSessions(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(cmd, a.operator, func(ctx context.Context, c *client.Client) ([]string, error) {
		page, err := c.Sessions(ctx, client.SessionFilter{Limit: 50})
		return wordsOf(page.Sessions, err, func(s palyra.Session) string { return string(s.ID) })
	})
}

func (a *app) completeWorkspaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(cmd, a.operator, func(ctx context.Context, c *client.Client) ([]string, error) {
		list, err := c.Workspaces(ctx)
		return wordsOf(list, err, func(w palyra.Workspace) string { return w.Path })
	})
}

// completionExamples says how the scripts that cobra makes are used.
func completionExamples(root *cobra.Command) {
	for shell, use := range map[string]string{
		"bash":       "  source <(palyra completion bash)",
		"zsh":        "  palyra completion zsh > \"${fpath[1]}/_palyra\"",
		"fish":       "  palyra completion fish | source",
		"powershell": "  palyra completion powershell | Out-String | Invoke-Expression",
	} {
		if cmd, _, err := root.Find([]string{"completion", shell}); err == nil {
			cmd.Example = use
		}
	}
}

func (a *app) completeRuns(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return offer(cmd, a.operator, func(ctx context.Context, c *client.Client) ([]string, error) {
		page, err := c.Runs(ctx, client.RunFilter{Limit: 50})
		return wordsOf(page.Runs, err, func(r palyra.Run) string { return string(r.ID) })
	})
}
