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
	return syntax.Parent("keys", "The daemon's own signing keys", keysListCommand(inv), keysExportCommand(inv), keysRotateCommand(inv),
		keysWhereCommand(inv), keysMoveCommand(inv))
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

func keysWhereCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "where", Short: "Show where the private halves of the keys are", Args: syntax.Takes(), Example: "  palyra keys where",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := c.KeyPlaces(ctx)
			return inv.Answer(err, map[string]any{"places": all}, func(w io.Writer) { showPlaces(w, all) })
		}),
	}
}

func keysMoveCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "move vault|files", Short: "Move the keys of attestations, of devices and for push services into the vault, or back into files",
		Args: syntax.Takes("vault|files"),
		Long: "Moves the private halves of the keys that sign attestations and certificates of devices and of that for push services, from\n" +
			"files of the daemon's user into the vault, or back. The vault's key is then needed at each start: while the vault is locked the\n" +
			"daemon starts, stops, records and verifies as ever, and refuses calls, as nothing could attest what they do; no device comes in,\n" +
			"and no closed browser is told of questions. The key of the journal stays in its file: it is needed while the vault is locked, too.\n" +
			"What is moved is read back before it is removed where it was, so a move that is cut off leaves a key in one place, or the same in\n" +
			"both; do it again then. A file that is removed is not overwritten on its disk: 'palyra keys rotate attestation' and 'palyra keys\n" +
			"rotate ca' afterwards make keys that never were in one. The key for push services is made anew where its file is removed before the\n" +
			"daemon starts; each browser then subscribes anew.\n" +
			"Keys in the vault are in no export of it: they are lost with the vault's key, and then this state attests nothing more.",
		Example:   "  palyra keys move vault\n  palyra keys move files",
		ValidArgs: []string{"vault", "files"},
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if !slices.Contains([]string{"vault", "files"}, args[0]) {
				return exit.Usagef("%q is none of vault and files", args[0])
			}
			all, err := c.MoveKeys(ctx, args[0])
			return inv.Answer(err, map[string]any{"places": all}, func(w io.Writer) { showPlaces(w, all) })
		}),
	}
}

// placeWords say where a private half is.
var placeWords = map[string]string{
	client.PlaceFile:       "a file of the daemon's user",
	client.PlaceVault:      "the vault",
	client.PlaceBoth:       "a file, and the vault has the same: a move was cut off; do it again, or move it back",
	client.PlaceCredential: "a credential of the service",
}

func showPlaces(w io.Writer, all []client.KeyPlace) {
	for _, p := range all {
		fmt.Fprintf(w, "%-12s %s\n", show.Line(string(p.Use)), placeWords[p.Place])
		if p.Locked != "" {
			fmt.Fprintf(w, "             %s\n  remedy: %s\n", show.Line(p.Locked), show.Line(p.Remedy))
		}
	}
}
