package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
	"palyra/internal/dotenv"
	"palyra/internal/show"
	"palyra/secrets"
)

// taken is what became of a variable.
type taken struct {
	Variable string           `json:"variable"`
	Secret   string           `json:"secret"`
	Version  int64            `json:"version"`
	Binding  *secrets.Binding `json:"binding,omitempty"` // proposed, or made
	Made     bool             `json:"made,omitempty"`    // the binding was made
}

func vaultImportEnvCommand(inv *invocation.Invocation) *cobra.Command {
	var bind, replace bool
	var only []string
	cmd := &cobra.Command{
		Use: "import-env FILE", Short: "Keep the secret values of a .env file, and propose bindings for them", Args: syntax.Takes("FILE"),
		Long: "Keep the secret values of a .env file, each under the name of its variable, and propose bindings for those whose variable\n" +
			"is a well-known service's. The file stays as it is. Numbers, booleans and values under 12 bytes are no secrets.\n" +
			"Where the vault has a secret of one of the names already nothing is kept: say --replace, or which with --only.",
		Example: "  palyra vault import-env .env\n  palyra vault import-env .env --bind --only GITHUB_TOKEN",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			text, err := readEnv(args[0])
			if err != nil {
				return err
			}
			found := slices.DeleteFunc(dotenv.Secrets(text), func(s dotenv.Variable) bool {
				return secrets.CheckName(secrets.Global, s.Name) != nil || len(only) > 0 && !slices.Contains(only, s.Name)
			})
			if !replace {
				if err := allNew(ctx, c, found); err != nil {
					return err
				}
			}
			all := []taken{}
			for _, s := range found {
				value := palyra.NewSecret(s.Value)
				info, err := c.PutSecret(ctx, secrets.Value{Scope: secrets.Global, Name: s.Name, Value: value, First: !replace})
				value.Destroy()
				if err != nil {
					return err
				}
				t := taken{Variable: s.Name, Secret: info.Name, Version: info.Version}
				if b, ok := secrets.Propose(s.Name, info.Name); ok {
					if t.Binding = &b; bind {
						if _, err := c.BindSecret(ctx, b); err != nil {
							return err
						}
						t.Made = true
					}
				}
				all = append(all, t)
			}
			if len(all) == 0 {
				return exit.Failedf(palyra.ReasonNotFound, "%s has no secret values", show.Arg(args[0])).
					WithRemedy("numbers, booleans and values under %d bytes are none", secrets.MinMasked)
			}
			return inv.Answer(nil, map[string]any{"secrets": all}, func(w io.Writer) { showTaken(w, all) })
		}),
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "put values in the place of secrets that have their names; older versions are kept")
	cmd.Flags().BoolVar(&bind, "bind", false, "make the proposed bindings, too")
	cmd.Flags().StringArrayVar(&only, "only", nil, "take this variable only; may be given again")
	return cmd
}

// allNew refuses variables by whose names the vault has secrets.
func allNew(ctx context.Context, c *client.Client, found []dotenv.Variable) error {
	list, err := c.Secrets(ctx)
	if err != nil {
		return err
	}
	var there []string
	for _, s := range found {
		if slices.ContainsFunc(list, func(i secrets.Info) bool { return i.Scope == secrets.Global && i.Name == s.Name }) {
			there = append(there, show.Line(s.Name))
		}
	}
	if len(there) == 0 {
		return nil
	}
	return exit.Failedf(palyra.ReasonExists, "the vault has secrets of these names already, so none was kept: %s", strings.Join(there, ", ")).
		WithRemedy("take the others with --only NAME, or say --replace to put these values in their places")
}

// readEnv reads a file of at most as many bytes as such files have.
func readEnv(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, exit.Failedf(palyra.ReasonNotFound, "%s cannot be read: %v", show.Arg(path), err).
			WithRemedy("name a file that you can read")
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, dotenv.MaxFile+1))
	if err != nil {
		return nil, exit.Failedf(palyra.ReasonNotFound, "%s cannot be read: %v", show.Arg(path), err).
			WithRemedy("name a file that you can read")
	}
	if len(text) > dotenv.MaxFile {
		return nil, exit.Failedf(palyra.ReasonInputTooLarge, "%s has more than %d bytes", show.Arg(path), dotenv.MaxFile)
	}
	return text, nil
}

// showTaken says what was kept, and which bindings would make use of it.
func showTaken(w io.Writer, all []taken) {
	for _, t := range all {
		fmt.Fprintf(w, "%s: kept as version %d\n", show.Line(t.Secret), t.Version)
		switch b := t.Binding; {
		case b == nil:
			fmt.Fprintf(w, "  say where it goes: palyra vault bind %s --host HOST --header NAME --env %s\n", show.Line(t.Secret),
				show.Line(t.Variable))
		case t.Made:
			fmt.Fprintf(w, "  bound: %s\n", bindingText(*b))
		default:
			fmt.Fprintf(w, "  proposed: palyra vault bind %s --host %s %s --env %s\n", show.Line(b.Name), b.Hosts[0], placeFlag(*b), b.Env)
		}
	}
}

// placeFlag is the flag by which vault bind is told the place.
func placeFlag(b secrets.Binding) string {
	if b.Place == "" {
		return "--" + string(b.Kind)
	}
	return "--" + string(b.Kind) + " " + b.Place
}
