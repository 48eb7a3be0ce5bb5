package access

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// Operators is `palyra operator`.
func Operators(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("operator", "Keys of the people who decide",
		operatorListCommand(inv), operatorShowCommand(inv), operatorProtectCommand(inv), operatorAddCommand(inv), operatorRemoveCommand(inv))
}

func operatorListCommand(inv *invocation.Invocation) *cobra.Command {
	return invocation.List[palyra.Operator]{
		Short: "List the operators' keys", Example: "  palyra operator list",
		Name: "operators", Find: (*client.Client).Operators,
		Head: []string{"KEY", "PRINCIPAL", "ROLE", "SEPARATION", "ADDED", "REMOVED"},
		Row: func(o palyra.Operator) []string {
			return []string{o.KeyID, string(o.Principal), string(o.Role), string(o.Separation), screen.Stamp(o.AddedAt), screen.Stamp(o.RemovedAt)}
		},
	}.Command(inv)
}

// ownKey is the key of the person at the terminal.
type ownKey struct {
	Path       string            `json:"path"`
	KeyID      string            `json:"key_id"`
	PublicKey  string            `json:"public_key"`
	Separation palyra.Separation `json:"approver_separation"`
}

func operatorShowCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show your own key; needs no daemon", Args: syntax.Takes(),
		Example: "  palyra operator show\n  palyra operator show --json | jq -r .public_key",
		RunE: func(*cobra.Command, []string) error {
			c, err := inv.Config()
			if err != nil {
				return err
			}
			s, err := client.LoadSigner(c.Paths.OperatorKey, nil)
			if err != nil {
				return err
			}
			defer s.Close()
			key := ownKey{c.Paths.OperatorKey, s.KeyID(), s.Public(), s.Separation()}
			return inv.Emit(key, func(w io.Writer) {
				screen.Fields(w, screen.Pair{"Key", key.KeyID}, screen.Pair{"File", key.Path},
					screen.Pair{"Public key", key.PublicKey}, screen.Pair{"Separation", string(key.Separation)})
			})
		},
	}
}

func operatorAddCommand(inv *invocation.Invocation) *cobra.Command {
	var role, public, separation string
	cmd := &cobra.Command{
		Use: "add PRINCIPAL", Short: "Make a person's key known", Args: syntax.Takes("PRINCIPAL"),
		Example: "  palyra operator add user:alice --role approver --public-key BASE64",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if raw, err := base64.StdEncoding.Strict().DecodeString(public); err != nil || len(raw) != ed25519.PublicKeySize {
				return exit.Usagef("--public-key must be an Ed25519 public key in base64; `palyra operator show` prints it")
			}
			o, err := c.AddOperator(ctx, palyra.Operator{
				Principal: palyra.Principal(args[0]), Role: palyra.Role(role), PublicKey: public, Separation: palyra.Separation(separation),
			})
			if err != nil {
				return err
			}
			return inv.Emit(o, func(w io.Writer) {
				fmt.Fprintf(w, "%s: added as %s with role %s\n", show.Line(o.KeyID), show.Line(string(o.Principal)), show.Line(string(o.Role)))
			})
		}),
	}
	cmd.Flags().StringVar(&role, "role", string(palyra.RoleApprover), "owner, admin, operator, approver, auditor or viewer")
	cmd.Flags().StringVar(&public, "public-key", "", "the public key, base64")
	cmd.Flags().StringVar(&separation, "separation", string(palyra.SeparationNone), "how the key is kept: none, passphrase or other_uid")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{
		"owner", "admin", "operator", "approver", "auditor",
		"viewer",
	}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("separation", cobra.FixedCompletions([]string{"none", "passphrase", "other_uid"},
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func operatorRemoveCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "remove KEY", Short: "End a key", Args: syntax.Takes("KEY"),
		Example: "  palyra operator remove KEY",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			err := c.RemoveOperator(ctx, args[0])
			return inv.Answer(err, map[string]string{"key_id": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "%s: removed\n", show.Line(args[0])) })
		}),
	}
}
