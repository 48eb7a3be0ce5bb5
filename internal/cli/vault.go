package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
	"palyra/secrets"
)

func vaultCommand(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("vault", "Keep secrets that are used and need not be seen",
		vaultPutCommand(inv), vaultGetCommand(inv), vaultListCommand(inv), vaultDeleteCommand(inv), vaultRotateCommand(inv),
		vaultUnlockCommand(inv), vaultLockCommand(inv), vaultStatusCommand(inv), vaultExportCommand(inv), vaultImportCommand(inv),
		vaultBindCommand(inv), vaultUnbindCommand(inv), vaultBindingsCommand(inv), vaultImportEnvCommand(inv),
		vaultAdoptCommand(inv))
}

// scopeFlag adds the flag for whom a secret is.
func scopeFlag(cmd *cobra.Command, scope *string) {
	cmd.Flags().StringVar(scope, "scope", string(secrets.Global), "for whom it is: global, principal:ID, channel:NAME, skill:ID or session:ID")
}

func vaultPutCommand(inv *invocation.Invocation) *cobra.Command {
	var scope, file string
	var stdin, exact bool
	var expires time.Duration
	var in secrets.Value
	cmd := &cobra.Command{
		Use: "put NAME", Short: "Keep a value, as the next version of a secret", Args: syntax.Takes("NAME"),
		Long: "Keep a value, as the next version of a secret. It is asked for without being shown, or comes from a file or standard input;\n" +
			"one line end at its end is not part of it. It is never an argument: other programs see those.",
		Example: "  palyra vault put github-token\n  pass show npm | palyra vault put npm-token --from-stdin --expires 720h",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) (err error) {
			in.Scope, in.Name = secrets.Scope(scope), args[0]
			if expires > 0 {
				in.Expires = time.Now().Add(expires)
			}
			if in.Value, err = secretInput(ctx, inv, file, stdin, exact); err != nil {
				return err
			}
			defer in.Value.Destroy()
			info, err := c.PutSecret(ctx, in)
			return inv.Answer(err, info, func(w io.Writer) { fmt.Fprintf(w, "%s: kept as version %d\n", show.Line(info.Name), info.Version) })
		}),
	}
	scopeFlag(cmd, &scope)
	cmd.Flags().StringVar(&file, "from-file", "", "read the value from a file")
	cmd.Flags().BoolVar(&stdin, "from-stdin", false, "read the value from standard input")
	cmd.Flags().BoolVar(&exact, "exact", false, "keep a line end at the end of the file or input")
	cmd.Flags().DurationVar(&expires, "expires", 0, "how long it may be used, such as 720h (default: for ever)")
	cmd.Flags().BoolVar(&in.Unmasked, "unmasked", false, "a value shorter than 12 bytes, which is shown where a program prints it")
	cmd.MarkFlagsMutuallyExclusive("from-file", "from-stdin")
	return cmd
}

// maxSecretInput is more than a vault takes: it says how much that is.
const maxSecretInput = 1 << 20

// secretInput is a value that a person gives: typed unseen, or from a file or standard input.
func secretInput(ctx context.Context, inv *invocation.Invocation, file string, stdin, exact bool) (palyra.Secret, error) {
	from := "-"
	switch {
	case file != "":
		from = "@" + file
	case !stdin && !inv.Interactive():
		return palyra.Secret{}, exit.Failedf(palyra.ReasonMalformedInput, "nobody can be asked for the value here").
			WithRemedy("say where it comes from: --from-stdin or --from-file FILE")
	case !stdin:
		defer terminal.Hush()()
		return inv.Secret(ctx, "Value, which is not shown: ")
	}
	raw, err := inv.ReadInput(from, maxSecretInput)
	if err != nil {
		return palyra.Secret{}, err
	}
	if !exact {
		raw = bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r"))
	}
	return palyra.NewSecret(raw), nil
}

// shownSecret is a secret in JSON: its value as text where it is text.
type shownSecret struct {
	secrets.Info
	Value string `json:"value,omitempty"`
	B64   []byte `json:"value_b64,omitempty"`
}

func vaultGetCommand(inv *invocation.Invocation) *cobra.Command {
	var scope string
	var version int64
	cmd := &cobra.Command{
		Use: "get NAME", Short: "Show a secret to a person; that is on record", Args: syntax.Takes("NAME"),
		Example: "  palyra vault get github-token",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			value, info, err := c.RevealSecret(ctx, secrets.Scope(scope), args[0], version)
			if err != nil {
				return err
			}
			defer value.Destroy()
			return value.Use(func(b []byte) error {
				out := shownSecret{Info: info}
				if out.Value = string(b); !utf8.Valid(b) {
					out.Value, out.B64 = "", b
				}
				return inv.Answer(nil, out, func(w io.Writer) { _, _ = w.Write(append(bytes.Clone(b), '\n')) })
			})
		}),
	}
	scopeFlag(cmd, &scope)
	cmd.Flags().Int64Var(&version, "version", 0, "which version (default: the last)")
	return cmd
}

func vaultListCommand(inv *invocation.Invocation) *cobra.Command {
	return invocation.List[secrets.Info]{
		Short: "List secrets, without their values", Example: "  palyra vault list --json",
		Name: "secrets", Find: (*client.Client).Secrets,
		Head: []string{"NAME", "VERSION", "SCOPE", "BY", "KEPT", "EXPIRES"},
		Row: func(i secrets.Info) []string {
			return []string{
				i.Name, strconv.FormatInt(i.Version, 10), string(i.Scope), string(i.CreatedBy), screen.Stamp(i.CreatedAt), screen.Stamp(i.ExpiresAt),
			}
		},
	}.Command(inv)
}

func vaultDeleteCommand(inv *invocation.Invocation) *cobra.Command {
	var scope string
	var version int64
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Remove a secret with all its versions, or one of them", Args: syntax.Takes("NAME"),
		Example: "  palyra vault delete npm-token --version 3",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			err := c.DeleteSecret(ctx, secrets.Scope(scope), args[0], version)
			return inv.Answer(err, map[string]string{"name": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "%s: removed\n", show.Line(args[0])) })
		}),
	}
	scopeFlag(cmd, &scope)
	cmd.Flags().Int64Var(&version, "version", 0, "which version (default: all)")
	return cmd
}

// keeperPassphrase is the keeper that wants a passphrase.
const keeperPassphrase = "passphrase"

func vaultRotateCommand(inv *invocation.Invocation) *cobra.Command {
	var keeper string
	cmd := &cobra.Command{
		Use: "rotate", Short: "Put the vault under a new key, of the same keeper or another", Args: syntax.Takes(),
		Example: "  palyra vault rotate\n  palyra vault rotate --keeper passphrase\n  palyra vault rotate --keeper secret-service",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			was, err := c.VaultStatus(ctx)
			if err != nil {
				return err
			}
			var passphrase palyra.Secret
			if keeper == keeperPassphrase || keeper == "" && was.Keeper == keeperPassphrase {
				if passphrase, err = inv.NewPassphrase(ctx); err != nil {
					return err
				}
				defer passphrase.Destroy()
			}
			if err := c.RotateVault(ctx, keeper, passphrase); err != nil {
				return err
			}
			now, err := c.VaultStatus(ctx)
			return inv.Answer(err, now, func(w io.Writer) { fmt.Fprintf(w, "the vault has a new key, held by %s\n", show.Line(now.Keeper)) })
		}),
	}
	cmd.Flags().StringVar(&keeper, "keeper", "", "what is to hold the key (default: what does now); 'palyra vault status' lists them")
	return cmd
}

func vaultUnlockCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "unlock", Short: "Open a vault whose key is behind a passphrase", Args: syntax.Takes(), Example: "  palyra vault unlock",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			defer terminal.Hush()()
			passphrase, err := inv.Secret(ctx, "Passphrase of the vault: ")
			if err != nil {
				return err
			}
			defer passphrase.Destroy()
			err = c.UnlockVault(ctx, passphrase)
			return inv.Answer(err, map[string]string{"state": string(secrets.Open)}, func(w io.Writer) { fmt.Fprintln(w, "the vault is open") })
		}),
	}
}

func vaultLockCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "lock", Short: "Forget the vault's key until it is needed again", Args: syntax.Takes(), Example: "  palyra vault lock",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			err := c.LockVault(ctx)
			return inv.Answer(err, map[string]string{"state": string(secrets.Locked)}, func(w io.Writer) {
				fmt.Fprintln(w, "the vault's key is forgotten until it is needed again")
			})
		}),
	}
}

// keeperWords say plainly what a keeper protects from.
var keeperWords = map[string]string{
	"key-file":       "in a file that only the daemon's user can read: whoever has that user's files has the secrets",
	keeperPassphrase: "in a file behind a passphrase: 'palyra vault unlock' after each start",
	"secret-service": "in your desktop's keyring: sealed while that is locked; else any program of yours outside of a sandbox can ask for it",
	"keychain":       "in your login keychain: sealed while that is locked; else any program of yours outside of a sandbox can ask for it",
	"dpapi":          "in a file that Windows opens for your account only: any program of yours outside of a sandbox can have it opened",
}

func vaultStatusCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show how the vault is, and what holds its key", Args: syntax.Takes(), Example: "  palyra vault status",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.VaultStatus(ctx)
			return inv.Answer(err, s, func(w io.Writer) {
				fmt.Fprintf(w, "state      %s\n", show.Line(string(s.State)))
				if s.Why != "" {
					fmt.Fprintf(w, "           %s\n  remedy: %s\n", show.Line(s.Why), show.Line(s.Remedy))
				}
				fmt.Fprintf(w, "keeper     %s\n", show.Line(s.Keeper))
				if words := keeperWords[s.Keeper]; words != "" {
					fmt.Fprintf(w, "           %s\n", words)
				}
				fmt.Fprintf(w, "keepers    %s\nversions   %d\nbindings   %d\nchanges    %d\n", show.Line(strings.Join(s.Keepers, ", ")),
					s.Versions, s.Bindings, s.Counter)
			})
		}),
	}
}
