package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/config"
	"palyra/internal/show"
	"palyra/secrets"
)

// adoption is a key that came into the vault, or would.
type adoption struct {
	What    string `json:"what"` // providers.NAME, or mcp.NAME
	From    string `json:"from"` // the file, or the variable
	Secret  string `json:"secret,omitempty"`
	Binding string `json:"binding,omitempty"`
	Host    string `json:"host,omitempty"`
	Version int64  `json:"version,omitempty"`
	Where   string `json:"where,omitempty"` // the line of the configuration that names the binding now
	Removed bool   `json:"removed,omitempty"`
	Back    bool   `json:"back,omitempty"` // it went back
	Left    string `json:"left,omitempty"` // why it was not taken, and what to do
}

// maxKeyFile is the largest file of a key.
const maxKeyFile = 16 << 10

func vaultAdoptCommand(inv *invocation.Invocation) *cobra.Command {
	var dry, remove, replace bool
	var to []string
	var back string
	cmd := &cobra.Command{
		Use: "adopt", Short: "Move keys that lie in plain files into the vault, and have the configuration name them there", Args: cobra.NoArgs,
		Long: "Moves the keys of providers of models from their files (providers.NAME.key_file) into the vault: each is kept as a secret,\n" +
			"bound to the provider's host and nothing else, and the line of the configuration then names the binding (key_binding).\n" +
			"The configuration works at every moment, also when this is cut off: do it again then, with --replace for what is in the\n" +
			"vault since. The daemon takes the new line up when it is started again; until then it reads the file, so --remove, which\n" +
			"removes the files, is for afterwards, or for when nothing runs.\n\n" +
			"Moves variables of MCP servers that look like secrets by their names, or are named by --to: each is kept as a secret, bound\n" +
			"to the host that --to says, that is known of the variable, or that is the only one the server reaches; the server then finds\n" +
			"a placeholder, and is changed at once or not at all. What was approved of its tools stays so. A value that was in a\n" +
			"definition is on record since the server was added: have a new one made by who gave it, and put that.\n" +
			"--back undoes it for a server. The secrets stay in the vault; the value stands in the definition, and on record, as before.",
		Example: "  palyra vault adopt --dry-run\n  palyra vault adopt && palyra down && palyra up\n" +
			"  palyra vault adopt --to issues.ISSUES_TOKEN=issues.example.com:443\n  palyra vault adopt --back issues",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			told, err := destinations(to)
			if err != nil {
				return err
			}
			if back != "" {
				all, err := giveBack(ctx, c, back)
				return inv.Answer(err, map[string]any{"adopted": all}, func(w io.Writer) { showAdopted(w, all, false) })
			}
			conf, err := config.Load(config.Options{Home: inv.Home, Env: inv.Env})
			if err != nil {
				return err
			}
			all := []adoption{}
			for _, k := range conf.PlainKeys() {
				a, err := adopt(ctx, c, k, dry, remove, replace)
				if err != nil {
					return err
				}
				all = append(all, a)
			}
			more, err := adoptVariables(ctx, c, told, dry, replace)
			if err != nil {
				return err
			}
			all = append(all, more...)
			return inv.Answer(nil, map[string]any{"adopted": all, "dry_run": dry}, func(w io.Writer) { showAdopted(w, all, dry) })
		}),
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be done, and do nothing")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the files, too")
	cmd.Flags().BoolVar(&replace, "replace", false, "put a value in the place of a secret that has its name; the older version is kept")
	cmd.Flags().StringArrayVar(&to, "to", nil, "where a server's variable goes, as SERVER.VARIABLE=HOST:PORT[/HEADER] (repeatable)")
	cmd.Flags().StringVar(&back, "back", "", "a server that is to find its variables as they were")
	cmd.MarkFlagsMutuallyExclusive("back", "to")
	cmd.MarkFlagsMutuallyExclusive("back", "dry-run")
	cmd.MarkFlagsMutuallyExclusive("back", "remove")
	return cmd
}

// adopt moves one key. The line of the configuration changes last, and at once: before that the file counts.
func adopt(ctx context.Context, c *client.Client, k config.PlainKey, dry, remove, replace bool) (adoption, error) {
	name := "provider-" + k.Provider
	a := adoption{What: "providers." + k.Provider, From: k.KeyFile, Secret: name, Binding: name, Host: k.Host, Where: k.Where}
	raw, err := config.ReadPrivate(k.KeyFile, maxKeyFile)
	if err != nil {
		a.Left = fmt.Sprintf("the file cannot be read: %v; make it one that you can read, of mode 0600", err)
		return a, nil
	}
	defer clear(raw)
	if dry {
		return a, nil
	}
	value := palyra.NewSecret(bytes.Clone(bytes.TrimSpace(raw)))
	defer value.Destroy()
	info, err := c.PutSecret(ctx, secrets.Value{Scope: secrets.Global, Name: name, Value: value, First: !replace})
	if e := palyra.AsError(err); err != nil && e.Reason == palyra.ReasonExists {
		a.Left = e.Text + "; if that was an earlier time that was cut off, or this key is the one that counts: palyra vault adopt --replace"
		return a, nil
	}
	if err != nil {
		return a, err
	}
	a.Version = info.Version
	b := secrets.Binding{Name: name, Secret: name, Scope: secrets.Global, Kind: secrets.Provider, Hosts: []string{k.Host}}
	if _, err := c.BindSecret(ctx, b); err != nil {
		return a, err
	}
	if err := k.Rebind(name); err != nil {
		return a, err
	}
	if remove {
		if err := os.Remove(k.KeyFile); err != nil {
			return a, exit.Failedf(palyra.ReasonInternal, "%s is in the vault, and cannot be removed: %v", show.Arg(k.KeyFile), err).
				WithRemedy("remove it yourself")
		}
		a.Removed = true
	}
	return a, nil
}

func showAdopted(w io.Writer, all []adoption, dry bool) {
	if len(all) == 0 {
		fmt.Fprintln(w, "no key lies in a plain file")
	}
	again := false
	for _, a := range all {
		what := show.Line(a.What) + ", " + show.Line(a.From)
		switch {
		case a.Left != "":
			fmt.Fprintf(w, "%s: left as it is: %s\n", what, show.Line(a.Left))
		case a.Back:
			fmt.Fprintf(w, "%s: is in the definition again, and on record in clear; the secret %s is kept: palyra vault delete %s\n", what,
				a.Secret, a.Secret)
		case dry:
			fmt.Fprintf(w, "%s: would become the secret %s, for %s only, named at %s\n", what, a.Secret, a.Host, show.Line(a.Where))
		case strings.HasPrefix(a.What, "mcp."):
			fmt.Fprintf(w, "%s: is the secret %s, version %d, for %s only; the server has a placeholder. The value was in its definition, and is\n"+
				"  on record: have a new one made, and put it: palyra vault put %s\n", what, a.Secret, a.Version, a.Host, a.Secret)
		default:
			again = true
			fmt.Fprintf(w, "%s: is the secret %s, version %d, for %s only; %s names it\n", what, a.Secret, a.Version, a.Host, show.Line(a.Where))
			if a.Removed {
				fmt.Fprintf(w, "  the file is removed\n")
			} else {
				fmt.Fprintf(w, "  the file is still there: remove it when the daemon was started again\n")
			}
		}
	}
	if again {
		fmt.Fprintln(w, "start the daemon again to have it take the keys from the vault: palyra down && palyra up")
	}
}
