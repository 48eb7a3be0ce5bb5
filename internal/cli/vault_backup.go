package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/config"
	"palyra/internal/durable"
	"palyra/internal/show"
	"palyra/secrets"
)

// passphraseFlag adds the flag by which scripts give the passphrase of an export.
func passphraseFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "passphrase-file", "",
		"read the passphrase from a file that only you can read, or from standard input with - (default: it is asked for)")
}

// maxPassphrase is how much is read of a file with a passphrase.
const maxPassphrase = 4096

// exportPassphrase is the passphrase of an export: of a file, or typed by a person. A new one is asked for twice.
func exportPassphrase(ctx context.Context, inv *invocation.Invocation, file string, first bool) (pass palyra.Secret, err error) {
	var raw []byte
	switch {
	case file == "" && !inv.Interactive():
		return pass, exit.Failedf(palyra.ReasonMalformedInput, "nobody can be asked for the passphrase of the export here").
			WithRemedy("run it from a terminal, or say where it comes from: --passphrase-file FILE")
	case file == "" && first:
		return inv.NewPassphrase(ctx)
	case file == "":
		defer terminal.Hush()()
		return inv.Secret(ctx, "Passphrase of the export: ")
	case file == "-":
		raw, err = inv.ReadInput("-", maxPassphrase)
	default:
		raw, err = config.ReadPrivate(file, maxPassphrase)
	}
	if config.Unsafe(err) {
		return pass, exit.Failedf(palyra.ReasonUnsafePermissions, "the passphrase in %s: the file %v", file, err).
			WithRemedy("make it yours alone: chmod 600 %s", file)
	}
	if err != nil {
		return pass, exit.Failedf(palyra.ReasonFileNotFound, "the passphrase cannot be read: %v", err).
			WithRemedy("name a file that you can read")
	}
	pass = palyra.NewSecret(bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r")))
	if first {
		err = client.CheckPassphrase(pass)
	}
	return pass, err
}

// exported is what an export says of itself.
type exported struct {
	File     string `json:"file"`
	Versions int64  `json:"versions"`
}

func vaultExportCommand(inv *invocation.Invocation) *cobra.Command {
	var file string
	var everyone, force bool
	cmd := &cobra.Command{
		Use: "export FILE", Short: "Write every secret to a file, behind a recovery passphrase; that is on record",
		Args: syntax.Takes("FILE"),
		Long: "Write every secret with all its versions to a file, behind a recovery passphrase. Whoever has both can read all of\n" +
			"them, on any machine, with Palyra or with age: keep them apart. Without the passphrase nobody can.\n" +
			"Only an owner can export, and only what policy lets them see: a vault that has anything else is not exported.",
		Example: "  palyra vault export /media/stick/vault.age\n  palyra vault export vault.age --passphrase-file ~/.recovery --everyone",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if _, err := os.Lstat(args[0]); err == nil && !force {
				return fileThere(args[0])
			}
			pass, err := exportPassphrase(ctx, inv, file, true)
			if err != nil {
				return err
			}
			defer pass.Destroy()
			out := exported{File: args[0]}
			err = durable.Write(args[0], 0o600, force, func(w io.Writer) (err error) {
				out.Versions, err = c.ExportVault(ctx, pass, everyone, w)
				return err
			})
			switch told := (*palyra.Error)(nil); {
			case errors.Is(err, fs.ErrExist):
				return fileThere(args[0])
			case err != nil && !errors.As(err, &told):
				return exit.Failedf(palyra.ReasonInternal, "cannot write %s: %v", args[0], err).WithRemedy("name a file that you can write")
			}
			return inv.Answer(err, out, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s, behind the passphrase\n", show.Arg(out.File), screen.Count(out.Versions, "version"))
			})
		}),
	}
	passphraseFlag(cmd, &file)
	cmd.Flags().BoolVar(&everyone, "everyone", false, "also what is for other people only; that is on record")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	return cmd
}

func fileThere(path string) error {
	return exit.Failedf(palyra.ReasonExists, "%s is there already", path).WithRemedy("name another file, or say --force to replace it")
}

func vaultImportCommand(inv *invocation.Invocation) *cobra.Command {
	var file string
	var replace, anew bool
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Take the secrets of an export into the vault, all of them or none", Args: syntax.Takes("FILE"),
		Long: "Take the secrets of an export into the vault with all their versions, all of them or none. A secret that the vault has in the\n" +
			"same versions is left as it is; one that it has otherwise refuses the import, unless --replace has the export take its place.\n" +
			"A vault that is damaged, or whose key is lost, is restored with --anew: it begins again with what is in the export and nothing\n" +
			"else, under a new key. Only an owner can do that.",
		Example: "  palyra vault import vault.age\n  palyra vault import --anew /media/stick/vault.age",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			f, size, err := openImport(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			pass, err := exportPassphrase(ctx, inv, file, false)
			if err != nil {
				return err
			}
			defer pass.Destroy()
			mode := secrets.Add
			switch {
			case replace:
				mode = secrets.Replace
			case anew:
				mode = secrets.Anew
			}
			out, err := c.ImportVault(ctx, f, size, pass, mode)
			return inv.Answer(err, out, func(w io.Writer) {
				fmt.Fprintf(w, "%s imported; of its secrets %d were added, %d replaced, and %d as they were\n",
					screen.Count(out.Versions, "version"), out.Added, out.Replaced, out.Same)
				if out.Bindings > 0 {
					fmt.Fprintf(w, "%s imported\n", screen.Count(out.Bindings, "binding"))
				}
				if anew {
					fmt.Fprintf(w, "the vault has a new key, held by %s\n", show.Line(out.Keeper))
				}
			})
		}),
	}
	passphraseFlag(cmd, &file)
	cmd.Flags().BoolVar(&replace, "replace", false, "have the export take the place of secrets that the vault has otherwise")
	cmd.Flags().BoolVar(&anew, "anew", false, "begin the vault again with what is in the export and nothing else, under a new key")
	cmd.MarkFlagsMutuallyExclusive("replace", "anew")
	return cmd
}

// openImport opens an export as it lies there.
func openImport(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, exit.Failedf(palyra.ReasonFileNotFound, "%v", err).WithRemedy("name a file that 'palyra vault export' wrote")
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		return f, info.Size(), nil
	}
	_ = f.Close()
	return nil, 0, exit.Failedf(palyra.ReasonNotRegularFile, "%s is not a file with an export in it", path).
		WithRemedy("name a file that 'palyra vault export' wrote")
}
