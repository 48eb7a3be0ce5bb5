// Package access has the commands about who may come in: people with their roles and keys, agents,
// tokens, the console.
package access

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// Command is `palyra access`.
func Command(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("access", "People, their tokens and what each may do",
		syntax.Parent("user", "The people this daemon knows",
			userListCommand(inv), userAddCommand(inv), userChangeCommand(inv), userRemoveCommand(inv)),
		syntax.Parent("token", "API tokens: what a program may do in somebody's name",
			tokenListCommand(inv), tokenAddCommand(inv), tokenRevokeCommand(inv)),
		rolesCommand(inv), whoamiCommand(inv))
}

func userListCommand(inv *invocation.Invocation) *cobra.Command {
	return invocation.List[palyra.User]{
		Short: "List the people; removed ones too", Example: "  palyra access user list",
		Name: "users", Find: (*client.Client).Users,
		Head: []string{"PRINCIPAL", "ROLE", "WORKSPACES", "ADDED", "REMOVED"},
		Row: func(u palyra.User) []string {
			return []string{string(u.Principal), string(u.Role), workspacesText(u.Workspaces), screen.Stamp(u.AddedAt), screen.Stamp(u.RemovedAt)}
		},
	}.Command(inv)
}

func workspacesText(list []string) string {
	if len(list) == 0 {
		return "all"
	}
	return strings.Join(list, " ")
}

// RoleNames lists the roles of people, the strongest first.
var RoleNames = roleNames()

func roleNames() (names []string) {
	for _, r := range slices.Backward(palyra.PeopleRoles()) {
		names = append(names, string(r))
	}
	return names
}

// personFlags hold a person's role and workspaces.
type personFlags struct {
	role       string
	workspaces []string
	everywhere bool
}

func (f *personFlags) add(cmd *cobra.Command, role, roleDefault, bound string) {
	cmd.Flags().StringVar(&f.role, "role", role, "owner, admin, operator, approver, auditor or viewer"+roleDefault)
	cmd.Flags().StringArrayVar(&f.workspaces, "workspace", nil,
		"a registered workspace that they are bound to; may be given more than once (default: "+bound+")")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(RoleNames, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagDirname("workspace")
}

func userAddCommand(inv *invocation.Invocation) *cobra.Command {
	var f personFlags
	cmd := &cobra.Command{
		Use: "add PRINCIPAL", Short: "Make a person known, before any key, device or token of theirs", Args: syntax.Takes("PRINCIPAL"),
		Example: "  palyra access user add user:bob --role approver\n  palyra access user add user:eve --role viewer --workspace /srv/site",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			bound, err := inv.Directories(f.workspaces)
			if err != nil {
				return err
			}
			u, err := c.AddUser(ctx, palyra.User{Principal: palyra.Principal(args[0]), Role: palyra.Role(f.role), Workspaces: bound})
			return userDone(inv, u, err)
		}),
	}
	f.add(cmd, string(palyra.RoleViewer), "", "all")
	return cmd
}

func userChangeCommand(inv *invocation.Invocation) *cobra.Command {
	var f personFlags
	cmd := &cobra.Command{
		Use: "change PRINCIPAL", Short: "Give a person another role or other workspaces", Args: syntax.Takes("PRINCIPAL"),
		ValidArgsFunction: CompleteUsers(inv),
		Long: "Changes what is given and leaves the rest. With --workspace, name every one that they are\n" +
			"to be bound to; --everywhere binds them to none. It holds at once, for every key, device\n" +
			"and token of theirs.",
		Example: "  palyra access user change user:bob --role operator\n  palyra access user change user:bob --workspace /srv/site " +
			"--workspace /srv/shop",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			u, err := changed(ctx, inv, c, palyra.Principal(args[0]), f)
			if err != nil {
				return err
			}
			u, err = c.ChangeUser(ctx, u)
			return userDone(inv, u, err)
		}),
	}
	f.add(cmd, "", " (default: as it is)", "as they are")
	cmd.Flags().BoolVar(&f.everywhere, "everywhere", false, "bind them to no workspace")
	return cmd
}

// changed returns a person with the changes of the flags. Everything else stays: another role gives
// access to no more workspaces.
func changed(ctx context.Context, inv *invocation.Invocation, c *client.Client, p palyra.Principal, f personFlags) (palyra.User, error) {
	switch {
	case f.everywhere && len(f.workspaces) > 0:
		return palyra.User{}, exit.Usagef("--everywhere and --workspace exclude each other")
	case !f.everywhere && len(f.workspaces) == 0 && f.role == "":
		return palyra.User{}, exit.Usagef("nothing is to be changed: give --role, --workspace or --everywhere")
	}
	list, err := c.Users(ctx)
	if err != nil {
		return palyra.User{}, err
	}
	i := slices.IndexFunc(list, func(u palyra.User) bool { return u.Principal == p && u.RemovedAt.IsZero() })
	if i < 0 {
		return palyra.User{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the daemon knows nobody called %s", p).
			WithRemedy("see 'palyra access user list'; add them with 'palyra access user add'")
	}
	u := palyra.User{Principal: p, Role: list[i].Role, Workspaces: list[i].Workspaces}
	if f.role != "" {
		u.Role = palyra.Role(f.role)
	}
	if f.everywhere || len(f.workspaces) > 0 {
		u.Workspaces, err = inv.Directories(f.workspaces)
	}
	return u, err
}

func userDone(inv *invocation.Invocation, u palyra.User, err error) error {
	if err != nil {
		return err
	}
	return inv.Emit(u, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s, workspaces: %s\n", show.Line(string(u.Principal)), show.Line(string(u.Role)),
			show.Line(workspacesText(u.Workspaces)))
	})
}

func userRemoveCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "remove PRINCIPAL", Short: "End a person with every key, device and token of theirs", Args: syntax.Takes("PRINCIPAL"),
		ValidArgsFunction: CompleteUsers(inv),
		Long: "Ends all of it at once. The name is never given again: what is on record about it is about\n" +
			"nobody else. Somebody who comes back gets another name.",
		Example: "  palyra access user remove user:bob",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			err := c.RemoveUser(ctx, palyra.Principal(args[0]))
			return inv.Answer(err, map[string]string{"principal": args[0]}, func(
				w io.Writer,
			) {
				fmt.Fprintf(w, "%s: removed\n", show.Line(args[0]))
			})
		}),
	}
}

func rolesCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "roles", Short: "List the roles with their permissions", Args: syntax.Takes(), Example: "  palyra access roles",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Roles(ctx)
			return inv.Answer(err, map[string][]client.RoleInfo{"roles": screen.Some(list)}, func(w io.Writer) {
				for _, r := range list {
					fmt.Fprintf(w, "%s\n  %s\n", show.Line(string(r.Role)), show.Line(spaced(r.Permissions)))
				}
			})
		}),
	}
}

func whoamiCommand(inv *invocation.Invocation) *cobra.Command {
	var agent bool
	cmd := &cobra.Command{
		Use: "whoami", Short: "Show as whom the daemon knows you, and what that may do", Args: syntax.Takes(),
		Long: "Without --agent you are whoever the operator's door knows; the token in the file of\n" +
			invocation.TokenVariable + " is used with --agent, as it is by 'palyra tools'.",
		Example: "  palyra access whoami\n  palyra access whoami --agent\n  palyra --remote work access whoami",
		RunE: func(cmd *cobra.Command, _ []string) error {
			door := inv.Operator
			if agent || inv.Inside() { // a room has no other door
				door = inv.Agent
			} else if inv.TokenFile() != "" {
				inv.Say("palyra: %s is set and not used here; for whom its token speaks: %s access whoami --agent", invocation.TokenVariable, inv.Own())
			}
			c, err := door()
			if err != nil {
				return err
			}
			defer c.Close()
			me, err := c.WhoAmI(cmd.Context())
			return inv.Answer(err, me, func(w io.Writer) {
				screen.Fields(w, screen.Pair{"Principal", string(me.Principal)},
					screen.Pair{"Owner", string(me.Owner)}, screen.Pair{"Role", string(me.Role)},
					screen.Pair{"Known by", strings.TrimSpace(me.Credential + " " + me.CredentialID)},
					screen.Pair{"Workspaces", workspacesText(me.Workspaces)},
					screen.Pair{"Permissions", spaced(me.Permissions)})
			})
		},
	}
	cmd.Flags().BoolVar(&agent, "agent", false, "as an agent: through the agent's door")
	return cmd
}

// Console is `palyra console`, with commands below it.
func Console(inv *invocation.Invocation, below ...*cobra.Command) *cobra.Command {
	var door string
	cmd := &cobra.Command{
		Use: "console", Short: "Print a link that signs a browser in, once, to look", Args: syntax.Takes(),
		Long: "The link holds for two minutes and for one browser: on the daemon's machine, or with --door on\nanother one. " +
			"A browser that is signed in looks. To decide there as well, pair it: 'palyra console pair'.",
		Example: "  palyra console\n  palyra console pair",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			url, ends, err := c.OpenConsoleAt(ctx, door)
			return inv.Answer(err, map[string]any{"url": url, "expires_at": ends}, func(w io.Writer) {
				fmt.Fprintln(w, show.Line(url))
				if name := inv.RemoteName(); name != "" {
					inv.Say("palyra: good for one browser on the machine of %s, until %s", show.Line(name), screen.Stamp(ends))
					return
				}
				inv.Say("palyra: good for one browser, until %s", screen.Stamp(ends))
			})
		}),
	}
	DoorFlag(cmd, &door)
	cmd.AddCommand(below...)
	return cmd
}

// DoorFlag says by which door of the console a browser comes.
func DoorFlag(cmd *cobra.Command, door *string) {
	cmd.Flags().StringVar(door, "door", "", "for a browser of another machine: https (console.https_listen) or plain (console.plain_listen)")
	_ = cmd.RegisterFlagCompletionFunc("door", cobra.FixedCompletions([]string{"https", "plain"}, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteUsers offers the people that the daemon knows.
func CompleteUsers(inv *invocation.Invocation) cobra.CompletionFunc {
	return invocation.OfferOne(inv, (*client.Client).Users, func(u palyra.User) string { return string(u.Principal) })
}

// spaced is a list of permissions on one line.
func spaced(list []palyra.Permission) string {
	return strings.ReplaceAll(screen.Joined(list), ", ", " ")
}
