package cli

import (
	"context"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
)

func completeApprovals(inv *invocation.Invocation) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return invocation.Offer(cmd, inv.Operator, func(ctx context.Context, c *client.Client) ([]string, error) {
			page, err := c.Approvals(ctx, client.ApprovalFilter{Limit: 50})
			return invocation.WordsOf(page.Approvals, err, func(p palyra.Approval) string { return string(p.ID) })
		})
	}
}

// completeDecide offers the pending approvals, then the answers.
func completeDecide(inv *invocation.Invocation) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return answerWords, cobra.ShellCompDirectiveNoFileComp
		}
		return invocation.Offer(cmd, inv.Operator, func(ctx context.Context, c *client.Client) ([]string, error) {
			page, err := c.Approvals(ctx, client.ApprovalFilter{Pending: true, Limit: 50})
			return invocation.WordsOf(page.Approvals, err, func(p palyra.Approval) string { return string(p.ID) })
		})
	}
}

func completeWorkspaces(inv *invocation.Invocation) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return invocation.Offer(cmd, inv.Operator, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := c.Workspaces(ctx)
			return invocation.WordsOf(list, err, func(w palyra.Workspace) string { return w.Path })
		})
	}
}

// completionExamples adds how to use the scripts that cobra makes.
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
