package invocation

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/show"
)

// completionPatience is how long the shell waits for completions.
const completionPatience = 2 * time.Second

// source finds words to offer.
type source func(ctx context.Context, c *client.Client) ([]string, error)

// Offer asks a daemon for words. Without a daemon it offers nothing and stays silent.
func Offer(cmd *cobra.Command, door func() (*client.Client, error), words source) ([]cobra.Completion, cobra.ShellCompDirective) {
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

// WordsOf turns a list into words to offer. It leaves out a word with misleading characters: the
// shell would print it unescaped.
func WordsOf[T any](list []T, err error, word func(T) string) ([]string, error) {
	var out []string
	for _, x := range list {
		if w := word(x); show.Line(w) == w {
			out = append(out, w)
		}
	}
	return out, err
}

// OfferOne offers, for a command's one argument, a word for each thing that the daemon has.
func OfferOne[T any](
	inv *Invocation, find func(*client.Client, context.Context) ([]T, error), word func(T) string,
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return Offer(cmd, inv.Operator, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := find(c, ctx)
			return WordsOf(list, err, word)
		})
	}
}

// CompleteTools offers the names of tools.
func (inv *Invocation) CompleteTools(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return Offer(cmd, inv.Agent, func(ctx context.Context, c *client.Client) ([]string, error) {
		tools, err := c.Tools(ctx)
		return WordsOf(tools, err, func(t palyra.Tool) string { return string(t.Name) })
	})
}

// CompleteSessions offers the ids of sessions.
func (inv *Invocation) CompleteSessions(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return Offer(cmd, inv.Operator, func(ctx context.Context, c *client.Client) ([]string, error) {
		page, err := c.Sessions(ctx, client.SessionFilter{Limit: 50})
		return WordsOf(page.Sessions, err, func(s palyra.Session) string { return string(s.ID) })
	})
}

// CompleteRemotes offers the daemons that this machine is paired with.
func (inv *Invocation) CompleteRemotes(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, err := inv.Config()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, _ := client.Remotes(c.Paths.Remotes) // the usable ones
	words, _ := WordsOf(list, nil, func(r *client.Remote) string { return r.Name })
	return slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, begun) }), cobra.ShellCompDirectiveNoFileComp
}
