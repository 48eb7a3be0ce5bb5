package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/durable"
	"palyra/internal/show"
)

func (a *app) access() *cobra.Command {
	return parent("access", "People, their tokens and what each may do",
		parent("user", "The people this daemon knows", a.userList(), a.userAdd(), a.userChange(), a.userRemove()),
		parent("token", "API tokens: what a program may do in somebody's name", a.tokenList(), a.tokenAdd(), a.tokenRevoke()),
		a.roles(), a.whoami())
}

func (a *app) userList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the people; removed ones too", Args: takes(), Example: "  palyra access user list",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Users(ctx)
			if err != nil {
				return err
			}
			return a.emit(map[string][]palyra.User{"users": some(list)}, func(w io.Writer) {
				var rows [][]string
				for _, u := range list {
					rows = append(rows, []string{string(u.Principal), string(u.Role), everywhere(u.Workspaces), stamp(u.AddedAt), stamp(u.RemovedAt)})
				}
				table(w, []string{"PRINCIPAL", "ROLE", "WORKSPACES", "ADDED", "REMOVED"}, rows)
			})
		}),
	}
}

func everywhere(list []string) string {
	if len(list) == 0 {
		return "all"
	}
	return strings.Join(list, " ")
}

// roleFlags are how a person's role and workspaces are given.
func roleFlags(cmd *cobra.Command, u *palyra.User, role *string) {
	cmd.Flags().StringVar(role, "role", string(palyra.RoleViewer), "owner, admin, operator, approver, auditor or viewer")
	cmd.Flags().StringArrayVar(&u.Workspaces, "workspace", nil, "a registered workspace that they are bound to; may be given more than once (default: all)")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"owner", "admin", "operator", "approver", "auditor", "viewer"}, cobra.ShellCompDirectiveNoFileComp))
}

func (a *app) userAdd() *cobra.Command {
	var u palyra.User
	var role string
	cmd := &cobra.Command{
		Use: "add PRINCIPAL", Short: "Make a person known, before any key, device or token of theirs", Args: takes("PRINCIPAL"),
		Example: "  palyra access user add user:bob --role approver\n  palyra access user add user:eve --role viewer --workspace /srv/site",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			u.Principal, u.Role = palyra.Principal(args[0]), palyra.Role(role)
			return a.userDone(c.AddUser(ctx, u))
		}),
	}
	roleFlags(cmd, &u, &role)
	return cmd
}

func (a *app) userChange() *cobra.Command {
	var u palyra.User
	var role string
	cmd := &cobra.Command{
		Use: "change PRINCIPAL", Short: "Give a person another role and other workspaces", Args: takes("PRINCIPAL"),
		Long:    "Sets both: name every workspace that they are to be bound to; without --workspace they\nare bound to none. It holds at once, for every key, device and token of theirs.",
		Example: "  palyra access user change user:bob --role operator",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			u.Principal, u.Role = palyra.Principal(args[0]), palyra.Role(role)
			return a.userDone(c.ChangeUser(ctx, u))
		}),
	}
	roleFlags(cmd, &u, &role)
	_ = cmd.MarkFlagRequired("role")
	return cmd
}

func (a *app) userDone(u palyra.User, err error) error {
	if err != nil {
		return err
	}
	return a.emit(u, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s, workspaces: %s\n", show.Line(string(u.Principal)), show.Line(string(u.Role)), show.Line(everywhere(u.Workspaces)))
	})
}

func (a *app) userRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove PRINCIPAL", Short: "End a person with every key, device and token of theirs", Args: takes("PRINCIPAL"), Example: "  palyra access user remove user:bob",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.RemoveUser(ctx, palyra.Principal(args[0])); err != nil {
				return err
			}
			return a.emit(map[string]string{"principal": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "%s: removed\n", show.Line(args[0])) })
		}),
	}
}

func (a *app) tokenList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the tokens, never themselves; revoked ones too", Args: takes(), Example: "  palyra access token list",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Tokens(ctx)
			if err != nil {
				return err
			}
			return a.emit(map[string][]palyra.Token{"tokens": some(list)}, func(w io.Writer) {
				var rows [][]string
				for _, t := range list {
					state := "until " + stamp(t.ExpiresAt)
					if !t.RevokedAt.IsZero() {
						state = "revoked " + stamp(t.RevokedAt)
					}
					rows = append(rows, []string{t.ID, t.Name, string(t.Principal), strings.Join(t.Scopes, " "), everywhere(t.Workspaces), stamp(t.UsedAt), state})
				}
				table(w, []string{"ID", "NAME", "PRINCIPAL", "SCOPES", "WORKSPACES", "USED", "STATE"}, rows)
			})
		}),
	}
}

func (a *app) tokenAdd() *cobra.Command {
	var t palyra.Token
	var principal, out string
	ttl := spanFlag(30 * 24 * time.Hour)
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Make a token; it is shown once", Args: takes("NAME"),
		Long: "A token speaks for a person, who then may look and nothing else, or for an agent. It can\n" +
			"do what its scopes name and never more than its principal. It is printed once, or written\n" +
			"to a file that only you can read.",
		Example: "  palyra access token add dashboard --scope status.view --scope approvals.view\n" +
			"  palyra access token add ci --for agent:ci --scope runs.start --scope runs.view --workspace /srv/site --ttl 7d --out ci.token",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			t.Name, t.Principal = args[0], palyra.Principal(principal)
			entry, token, err := c.AddToken(ctx, t, time.Duration(ttl))
			if err != nil {
				return err
			}
			defer token.Destroy()
			return token.Use(func(b []byte) error { return a.tokenOver(entry, b, out) })
		}),
	}
	cmd.Flags().StringVar(&principal, "for", "", "the user or agent that it speaks for (default: you)")
	cmd.Flags().StringArrayVar(&t.Scopes, "scope", nil, "a permission it has; may be given more than once ('palyra access roles' lists them)")
	cmd.Flags().StringArrayVar(&t.Workspaces, "workspace", nil, "a registered workspace that it is bound to; may be given more than once")
	cmd.Flags().Var(&ttl, "ttl", "how long it holds: 12h, 30d; at most a year")
	cmd.Flags().StringVar(&out, "out", "", "write the token to this new file, readable by you alone")
	_ = cmd.MarkFlagRequired("scope")
	return cmd
}

// tokenOver gives a new token to the person, once.
func (a *app) tokenOver(entry palyra.Token, token []byte, out string) error {
	shown := map[string]any{"entry": entry}
	if out == "" {
		shown["token"] = string(token)
	} else if err := durable.WriteFile(out, append([]byte(nil), append(token, '\n')...), 0o600); err != nil {
		return failed(palyra.ReasonUnsafePermissions, "the token was made and could not be written: %v", err).
			WithRemedy("revoke it: palyra access token revoke %s", entry.ID)
	}
	return a.emit(shown, func(w io.Writer) {
		if out != "" {
			fmt.Fprintf(w, "%s: written to %s\n", show.Line(entry.ID), show.Line(out))
			return
		}
		fmt.Fprintf(w, "%s\n", token)
		a.say("palyra: %s, good until %s; it is not shown again", show.Line(entry.ID), stamp(entry.ExpiresAt))
	})
}

func (a *app) tokenRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "End a token at once", Args: takes("ID"), Example: "  palyra access token revoke tok-…",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.RevokeToken(ctx, args[0]); err != nil {
				return err
			}
			return a.emit(map[string]string{"token_id": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "%s: revoked\n", show.Line(args[0])) })
		}),
	}
}

func (a *app) roles() *cobra.Command {
	return &cobra.Command{
		Use: "roles", Short: "List the roles with their permissions", Args: takes(), Example: "  palyra access roles",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Roles(ctx)
			if err != nil {
				return err
			}
			return a.emit(map[string][]client.RoleInfo{"roles": some(list)}, func(w io.Writer) {
				for _, r := range list {
					fmt.Fprintf(w, "%s\n  %s\n", show.Line(string(r.Role)), show.Line(strings.Join(r.Permissions, " ")))
				}
			})
		}),
	}
}

func (a *app) whoami() *cobra.Command {
	var agent bool
	cmd := &cobra.Command{
		Use: "whoami", Short: "Show as whom the daemon knows you, and what that may do", Args: takes(),
		Example: "  palyra access whoami\n  palyra access whoami --agent\n  palyra --remote work access whoami",
		RunE: func(cmd *cobra.Command, _ []string) error {
			door := a.operator
			if agent {
				door = a.agent
			}
			c, err := door()
			if err != nil {
				return err
			}
			defer c.Close()
			me, err := c.WhoAmI(cmd.Context())
			if err != nil {
				return err
			}
			return a.emit(me, func(w io.Writer) {
				fields(w, pair{"Principal", string(me.Principal)}, pair{"Owner", string(me.Owner)}, pair{"Role", string(me.Role)},
					pair{"Known by", strings.TrimSpace(me.Credential + " " + me.CredentialID)}, pair{"Workspaces", everywhere(me.Workspaces)},
					pair{"Permissions", strings.Join(me.Permissions, " ")})
			})
		},
	}
	cmd.Flags().BoolVar(&agent, "agent", false, "as an agent: through the agent's door")
	return cmd
}

func (a *app) console() *cobra.Command {
	return &cobra.Command{
		Use: "console", Short: "Print a link that signs a browser in, once, to look", Args: takes(),
		Long:    "The link holds for two minutes and for one browser on the daemon's machine. A browser that\nis signed in looks; it decides nothing.",
		Example: "  palyra console",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			url, ends, err := c.OpenConsole(ctx)
			if err != nil {
				return err
			}
			return a.emit(map[string]any{"url": url, "expires_at": ends}, func(w io.Writer) {
				fmt.Fprintln(w, show.Line(url))
				a.say("palyra: good for one browser, until %s", stamp(ends))
			})
		}),
	}
}
