package cli

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

func (a *app) operators() *cobra.Command {
	return parent("operator", "Keys of the people who decide",
		a.operatorList(), a.operatorShow(), a.operatorProtect(), a.operatorAdd(), a.operatorRemove())
}

func (a *app) operatorList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the operators' keys", Args: takes(),
		Example: "  palyra operator list",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Operators(ctx)
			if err != nil {
				return err
			}
			return a.emit(map[string][]palyra.Operator{"operators": screen.Some(list)}, func(w io.Writer) {
				var rows [][]string
				for _, o := range list {
					rows = append(rows, []string{o.KeyID, string(o.Principal), string(o.Role), string(o.Separation), screen.Stamp(o.AddedAt), screen.Stamp(o.RemovedAt)})
				}
				screen.Table(w, []string{"KEY", "PRINCIPAL", "ROLE", "SEPARATION", "ADDED", "REMOVED"}, rows)
			})
		}),
	}
}

// ownKey is the key of the person at the terminal.
type ownKey struct {
	Path       string            `json:"path"`
	KeyID      string            `json:"key_id"`
	PublicKey  string            `json:"public_key"`
	Separation palyra.Separation `json:"approver_separation"`
}

func (a *app) operatorShow() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show your own key; needs no daemon", Args: takes(),
		Example: "  palyra operator show\n  palyra operator show --json | jq -r .public_key",
		RunE: func(*cobra.Command, []string) error {
			c, err := a.config()
			if err != nil {
				return err
			}
			s, err := client.LoadSigner(c.Paths.OperatorKey, nil)
			if err != nil {
				return err
			}
			defer s.Close()
			key := ownKey{c.Paths.OperatorKey, s.KeyID(), s.Public(), s.Separation()}
			return a.emit(key, func(w io.Writer) {
				screen.Fields(w, screen.Pair{"Key", key.KeyID}, screen.Pair{"File", key.Path},
					screen.Pair{"Public key", key.PublicKey}, screen.Pair{"Separation", string(key.Separation)})
			})
		},
	}
}

func (a *app) operatorAdd() *cobra.Command {
	var role, public, separation string
	cmd := &cobra.Command{
		Use: "add PRINCIPAL", Short: "Make a person's key known", Args: takes("PRINCIPAL"),
		Example: "  palyra operator add user:alice --role approver --public-key BASE64",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if raw, err := base64.StdEncoding.Strict().DecodeString(public); err != nil || len(raw) != ed25519.PublicKeySize {
				return usage("--public-key must be an Ed25519 public key in base64; `palyra operator show` prints it")
			}
			o, err := c.AddOperator(ctx, palyra.Operator{
				Principal: palyra.Principal(args[0]), Role: palyra.Role(role), PublicKey: public, Separation: palyra.Separation(separation),
			})
			if err != nil {
				return err
			}
			return a.emit(o, func(w io.Writer) {
				fmt.Fprintf(w, "%s: added as %s with role %s\n", show.Line(o.KeyID), show.Line(string(o.Principal)), show.Line(string(o.Role)))
			})
		}),
	}
	cmd.Flags().StringVar(&role, "role", string(palyra.RoleApprover), "owner, admin, operator, approver, auditor or viewer")
	cmd.Flags().StringVar(&public, "public-key", "", "the public key, base64")
	cmd.Flags().StringVar(&separation, "separation", string(palyra.SeparationNone), "how the key is kept: none, passphrase or other_uid")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"owner", "admin", "operator", "approver", "auditor", "viewer"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("separation", cobra.FixedCompletions([]string{"none", "passphrase", "other_uid"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) operatorRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove KEY", Short: "End a key", Args: takes("KEY"),
		Example: "  palyra operator remove KEY",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.RemoveOperator(ctx, args[0]); err != nil {
				return err
			}
			return a.emit(map[string]string{"key_id": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "%s: removed\n", show.Line(args[0])) })
		}),
	}
}
