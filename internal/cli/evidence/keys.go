package evidence

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// Keys is `palyra keys`.
func Keys(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("keys", "The daemon's own signing keys", keysListCommand(inv), keysExportCommand(inv), keysRotateCommand(inv))
}

func keysListCommand(inv *invocation.Invocation) *cobra.Command {
	return invocation.List[palyra.Key]{
		Short: "List the keys; retired ones too", Example: "  palyra keys list",
		Name: "keys", Find: (*client.Client).Keys,
		Head: []string{"KEY", "USE", "CREATED", "RETIRED", "PUBLIC KEY"},
		Row: func(k palyra.Key) []string {
			return []string{k.ID, string(k.Use), screen.Stamp(k.CreatedAt), screen.Stamp(k.RetiredAt), k.PublicKey}
		},
	}.Command(inv)
}

func keysExportCommand(inv *invocation.Invocation) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "export", Short: "Export the public keys as a trust file for verifiers", Args: syntax.Takes(),
		Example: "  palyra keys export --out trust.json\n  palyra attest verify outcome.json --key trust.json",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			return inv.WriteTo(ctx, out, func(ctx context.Context, w io.Writer) error {
				doc, err := c.ExportKeys(ctx)
				if err != nil {
					return err
				}
				_, err = w.Write(doc)
				return err
			})
		}),
	}
	syntax.OutFlag(cmd, &out)
	return cmd
}

func keysRotateCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "rotate journal|attestation|ca", Short: "Make a new key and chain it to the old one", Args: syntax.Takes("journal|attestation|ca"),
		Example:   "  palyra keys rotate journal",
		ValidArgs: []string{"journal", "attestation", "ca"},
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if !slices.Contains([]string{"journal", "attestation", "ca"}, args[0]) {
				return exit.Usagef("%q is none of journal, attestation and ca (the authority of devices)", args[0])
			}
			k, err := c.RotateKey(ctx, palyra.KeyUse(args[0]))
			return inv.Answer(err, k, func(w io.Writer) { fmt.Fprintf(w, "%s: now signs for %s\n", show.Line(k.ID), show.Line(string(k.Use))) })
		}),
	}
}
