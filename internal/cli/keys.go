package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

func (a *app) keys() *cobra.Command {
	return parent("keys", "The daemon's own signing keys", a.keysList(), a.keysExport(), a.keysRotate())
}

func (a *app) keysList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the keys; retired ones too", Args: takes(),
		Example: "  palyra keys list",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Keys(ctx)
			if err != nil {
				return err
			}
			return a.emit(map[string][]palyra.Key{"keys": screen.Some(list)}, func(w io.Writer) {
				var rows [][]string
				for _, k := range list {
					rows = append(rows, []string{k.ID, k.Use, screen.Stamp(k.CreatedAt), screen.Stamp(k.RetiredAt), k.PublicKey})
				}
				screen.Table(w, []string{"KEY", "USE", "CREATED", "RETIRED", "PUBLIC KEY"}, rows)
			})
		}),
	}
}

func (a *app) keysExport() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "export", Short: "Export the public keys as a trust file for verifiers", Args: takes(),
		Example: "  palyra keys export --out trust.json\n  palyra attest verify outcome.json --key trust.json",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.writeTo(ctx, out, func(ctx context.Context, w io.Writer) error {
				doc, err := c.ExportKeys(ctx)
				if err != nil {
					return err
				}
				_, err = w.Write(doc)
				return err
			})
		}),
	}
	outFlag(cmd, &out)
	return cmd
}

func (a *app) keysRotate() *cobra.Command {
	return &cobra.Command{
		Use: "rotate journal|attestation|ca", Short: "Make a new key and chain it to the old one", Args: takes("journal|attestation|ca"),
		Example:   "  palyra keys rotate journal",
		ValidArgs: []string{"journal", "attestation", "ca"},
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if !slices.Contains([]string{"journal", "attestation", "ca"}, args[0]) {
				return usage("%q is none of journal, attestation and ca (the authority of devices)", args[0])
			}
			k, err := c.RotateKey(ctx, args[0])
			if err != nil {
				return err
			}
			return a.emit(k, func(w io.Writer) { fmt.Fprintf(w, "%s: now signs for %s\n", show.Line(k.ID), show.Line(k.Use)) })
		}),
	}
}
