package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/durable"
	"palyra/internal/show"
)

func tokenListCommand(inv *invocation.Invocation) *cobra.Command {
	return invocation.List[palyra.Token]{
		Short: "List the tokens, never themselves; revoked ones too", Example: "  palyra access token list",
		Name: "tokens", Find: (*client.Client).Tokens,
		Head: []string{"ID", "NAME", "PRINCIPAL", "SCOPES", "WORKSPACES", "USED", "STATE"},
		Row: func(t palyra.Token) []string {
			return []string{
				t.ID, t.Name, string(t.Principal), spaced(t.Scopes), workspacesText(t.Workspaces), screen.Stamp(t.UsedAt),
				tokenEnd(inv, t),
			}
		},
	}.Command(inv)
}

// tokenEnd is the state of a token.
func tokenEnd(inv *invocation.Invocation, t palyra.Token) string {
	switch {
	case !t.RevokedAt.IsZero():
		return "revoked " + screen.Stamp(t.RevokedAt)
	case !inv.Now().Before(t.ExpiresAt):
		return "ended " + screen.Stamp(t.ExpiresAt)
	}
	return "until " + screen.Stamp(t.ExpiresAt)
}

func tokenAddCommand(inv *invocation.Invocation) *cobra.Command {
	var t palyra.Token
	var scopes []string
	var principal, out string
	ttl := screen.SpanFlag(30 * 24 * time.Hour)
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Make a token; it is shown once", Args: syntax.Takes("NAME"),
		Long: "A token speaks for a person, who then may look and nothing else, or for an agent. It can\n" +
			"do what its scopes name and never more than its principal. It is printed once, or written\n" +
			"to a file that only you can read. An agent must be known before ('palyra agent add'), a\n" +
			"workspace registered ('palyra workspace add').\n\n" +
			"A program sends it as a bearer token to either socket of 'palyra status'; the palyra\n" +
			"command takes it from the file that " + invocation.TokenVariable + " names.",
		Example: "  palyra access token add dashboard --scope status.view --scope approvals.view --out dash.token\n" +
			"  curl --unix-socket RUN/operator.sock -H \"Authorization: Bearer $(cat dash.token)\" \\\n" +
			"    -H 'Content-Type: application/json' -d '{}' http://palyra/palyra.v1.StatusService/GetStatus\n" +
			"  palyra agent add ci --out agent.token\n" +
			"  palyra access token add ci --for agent:ci --scope runs.start --scope runs.view --workspace /srv/site --ttl 7d --out ci.token",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			t.Name, t.Principal = args[0], palyra.Principal(principal)
			for _, s := range scopes {
				t.Scopes = append(t.Scopes, palyra.Permission(s))
			}
			var err error
			if t.Workspaces, err = inv.Directories(t.Workspaces); err != nil {
				return err
			}
			if len(t.Scopes) == 0 {
				return exit.Usagef("--scope is required: what it may do; 'palyra access roles' lists the permissions")
			}
			if err := newFile(out); err != nil {
				return err
			}
			entry, token, err := c.AddToken(ctx, t, time.Duration(ttl))
			if err != nil {
				return err
			}
			defer token.Destroy()
			return token.Use(func(b []byte) error { return tokenOver(inv, entry, b, out) })
		}),
	}
	cmd.Flags().StringVar(&principal, "for", "", "the user or agent that it speaks for (default: you)")
	cmd.Flags().StringArrayVar(&scopes, "scope", nil, "a permission it has; may be given more than once ('palyra access roles' lists them)")
	cmd.Flags().StringArrayVar(&t.Workspaces, "workspace", nil, "a registered workspace that it is bound to; may be given more than once")
	cmd.Flags().Var(&ttl, "ttl", "how long it holds: 12h, 30d; at most a year")
	cmd.Flags().StringVar(&out, "out", "", "write the token to this new file, readable by you alone")
	_ = cmd.MarkFlagFilename("out")
	return cmd
}

// newToken is a token's entry and, only this once, the token itself.
type newToken struct {
	Entry     palyra.Token `json:"entry"`
	Token     string       `json:"token,omitempty"`
	TokenFile string       `json:"token_file,omitempty"`
}

// newFile refuses an existing file, before a token is made for it.
func newFile(path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "%s is there already, or cannot be looked at", path).
			WithRemedy("name a new file; no token was made").WithCause(err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return exit.Failedf(palyra.ReasonFileNotFound, "%s is no directory", filepath.Dir(path)).
			WithRemedy("make it first; no token was made").WithCause(err)
	}
	return nil
}

// tokenOver gives a new token to the person, once.
func tokenOver(inv *invocation.Invocation, entry palyra.Token, token []byte, out string) error {
	shown := newToken{Entry: entry, TokenFile: out}
	if out == "" {
		shown.Token = string(token)
	} else if err := durable.WriteFile(out, append(append([]byte{}, token...), '\n'), 0o600); err != nil {
		return exit.Failedf(palyra.ReasonUnsafePermissions, "the token was made and could not be written: %v", err).
			WithRemedy("revoke it: palyra access token revoke %s", entry.ID)
	}
	return inv.Emit(shown, func(w io.Writer) {
		if out != "" {
			fmt.Fprintf(w, "%s: written to %s\n", show.Line(entry.ID), show.Arg(out))
			return
		}
		fmt.Fprintln(w, show.Line(shown.Token))
		inv.Say("palyra: %s, good until %s; it is not shown again", show.Line(entry.ID), screen.Stamp(entry.ExpiresAt))
	})
}

func tokenRevokeCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "revoke TOKEN", Short: "End a token at once", Args: syntax.Takes("TOKEN"), ValidArgsFunction: completeTokens(inv),
		Long:    "TOKEN is its id, or its name where one token alone that still holds is called that.",
		Example: "  palyra access token revoke tok-…\n  palyra access token revoke dashboard",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := tokenID(ctx, c, args[0])
			if err != nil {
				return err
			}
			err = c.RevokeToken(ctx, id)
			return inv.Answer(err, map[string]string{"token_id": id}, func(w io.Writer) { fmt.Fprintf(w, "%s: revoked\n", show.Line(id)) })
		}),
	}
}

// tokenID returns the id of the token that a person named by id or name. An ambiguous name is an error.
func tokenID(ctx context.Context, c *client.Client, said string) (string, error) {
	if strings.HasPrefix(said, "tok-") {
		return said, nil
	}
	list, err := c.Tokens(ctx)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, t := range list {
		if t.Name == said && t.RevokedAt.IsZero() {
			ids = append(ids, t.ID)
		}
	}
	switch len(ids) {
	case 0:
		return "", palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no token that holds is called %s", said).
			WithRemedy("see 'palyra access token list'")
	case 1:
		return ids[0], nil
	}
	return "", palyra.Errorf(palyra.Conflict, palyra.ReasonMalformedInput, "%d tokens are called %s", len(ids), said).
		WithRemedy("name one by its id: %s", strings.Join(ids, ", "))
}

func completeTokens(inv *invocation.Invocation) cobra.CompletionFunc {
	return invocation.OfferOne(inv, (*client.Client).Tokens, func(t palyra.Token) string { return t.ID })
}
