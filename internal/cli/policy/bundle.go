package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/client/bundle"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// bundles are the commands about policies that operators own.
func bundles(inv *invocation.Invocation) []*cobra.Command {
	return []*cobra.Command{
		initCommand(inv), checkCommand(inv), replayCommand(inv), suggestCommand(inv), applyCommand(inv),
		historyCommand(inv), rollbackCommand(inv),
	}
}

func initCommand(inv *invocation.Invocation) *cobra.Command {
	var preset string
	cmd := &cobra.Command{
		Use: "init DIR", Short: "Write policies to start from into a new directory", Args: syntax.Takes("DIR"),
		Example: "  palyra policy init policies\n  palyra policy init policies --preset strict",
		RunE: func(_ *cobra.Command, args []string) error {
			files, err := bundle.Preset(preset)
			if err != nil {
				return err
			}
			if err := writeBundle(args[0], files); err != nil {
				return err
			}
			names := slices.Sorted(maps.Keys(files))
			return inv.Emit(map[string]any{"dir": args[0], "preset": preset, "files": names}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %d files of the preset %s\n", show.Line(args[0]), len(names), show.Line(preset))
				fmt.Fprintf(w, "change them, then: palyra policy check %s && palyra policy apply %s\n", show.Arg(args[0]), show.Arg(args[0]))
			})
		},
	}
	cmd.Flags().StringVar(&preset, "preset", bundle.Presets()[0], strings.Join(bundle.Presets(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("preset", cobra.FixedCompletions(bundle.Presets(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// writeBundle writes files into a directory that is new or empty, so that it never overwrites
// somebody's own policies.
func writeBundle(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return exit.Failedf(palyra.ReasonPathInvalid, "%v", err)
	}
	old, err := os.ReadDir(dir)
	if err != nil {
		return exit.Failedf(palyra.ReasonPathInvalid, "%v", err)
	}
	if len(old) > 0 {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonPathInvalid, "%s is not empty", dir).WithRemedy("name a new directory")
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if !filepath.IsLocal(filepath.FromSlash(name)) { // a remote daemon may send any name
			return exit.Failedf(palyra.ReasonPathInvalid, "%q is no name of a policy file", name)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // tests have a directory of their own
			return exit.Failedf(palyra.ReasonPathInvalid, "%v", err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			_, err = f.WriteString(files[name])
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return exit.Failedf(palyra.ReasonPathInvalid, "%v", err)
		}
	}
	return nil
}

// readBundle reads a directory of this machine; also one for a daemon elsewhere.
func readBundle(dir string) (map[string]string, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "%s is not there", dir).
			WithRemedy("make one with 'palyra policy init DIR'")
	}
	return bundle.Read(dir)
}

func applyCommand(inv *invocation.Invocation) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "apply DIR", Short: "Put policies into force", Args: syntax.Takes("DIR"),
		Long: "Reads DIR, checks it, runs its tests and puts it into force, all or nothing: with\n" +
			"anything wrong the policies in force stay. What was in force before is kept; see\n" +
			"'palyra policy history' and 'palyra policy rollback'.",
		Example: "  palyra policy apply policies",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			files, err := readBundle(args[0])
			if err != nil {
				return err
			}
			before, _ := c.Activations(ctx, 1) // only to report whether something changed
			check, done, err := c.ApplyPolicy(ctx, files, force)
			return inv.Answer(err, map[string]any{"check": check, "activation": done}, func(w io.Writer) {
				printCheck(w, check)
				if len(before) == 1 && before[0].Number == done.Number {
					fmt.Fprintf(w, "already in force, nothing changed: %s (since %s, activation %d, by %s)\n",
						show.Line(string(done.Bundle)), screen.Stamp(done.At), done.Number, show.Line(string(done.By)))
					return
				}
				printActivation(w, done)
			})
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "also when no owner could answer approvals or change policy any more")
	return cmd
}

func printActivation(w io.Writer, a client.Activation) {
	fmt.Fprintf(w, "in force: %s (activation %d, by %s)\n", show.Line(string(a.Bundle)), a.Number, show.Line(string(a.By)))
}

// maxHistory is the longest list of a daemon.
const maxHistory = 500

func historyCommand(inv *invocation.Invocation) *cobra.Command {
	var limit int64
	cmd := &cobra.Command{
		Use: "history", Short: "List what was in force, newest first", Args: syntax.Takes(),
		Example: "  palyra policy history",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			if limit < 1 || limit > maxHistory {
				return exit.Usagef("--limit %d: from 1 to %d", limit, maxHistory)
			}
			list, err := c.Activations(ctx, limit)
			if err != nil {
				return err
			}
			return invocation.Page[client.Activation]{
				JSON: map[string]any{"activations": screen.Some(list)}, Things: list, Head: []string{"NUMBER", "STATE", "SINCE", "BY", "BUNDLE"},
				Row: func(x client.Activation) []string {
					now := "earlier"
					if x.InForce {
						now = "in force"
					}
					return []string{strconv.FormatInt(x.Number, 10), now, screen.Stamp(x.At), string(x.By), string(x.Bundle)}
				},
			}.Show(inv)
		}),
	}
	cmd.Flags().Int64Var(&limit, "limit", 50, "how many, up to "+strconv.Itoa(maxHistory))
	return cmd
}

func rollbackCommand(inv *invocation.Invocation) *cobra.Command {
	var force, offline bool
	cmd := &cobra.Command{
		Use: "rollback [DIGEST]", Short: "Put earlier policies back into force", Args: syntax.Takes("[DIGEST]"),
		Long: "Puts the policies with DIGEST back into force, or those before the present ones. A number\n" +
			"of 'palyra policy history' will do for the digest while a daemon runs.\n" +
			"With --offline it works on the state itself, without a daemon and without a\n" +
			"signature, for when the policies in force let nobody in; DIGEST may then also be the\n" +
			"name of a preset. Only who owns the state can do that, and it is on record.",
		Example: "  palyra policy rollback\n  palyra policy rollback 85\n  palyra policy rollback sha256:…\n  palyra down; palyra " +
			"policy rollback --offline; palyra up --detach",
	}
	cmd.Flags().BoolVar(&force, "force", false, "also when no owner could answer approvals or change policy any more")
	cmd.Flags().BoolVar(&offline, "offline", false, "on the state itself, while no daemon runs")
	online := inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
		d, err := bundleMeant(ctx, c, strings.Join(args, ""))
		if err != nil {
			return err
		}
		done, err := c.RollbackPolicy(ctx, d, force)
		return inv.Answer(err, done, func(w io.Writer) { printActivation(w, done) })
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if offline {
			return rollbackOffline(cmd.Context(), inv, args)
		}
		return online(cmd, args)
	}
	return cmd
}

// bundleMeant is the digest of the policies that an argument names: by itself, or by the number of an activation.
func bundleMeant(ctx context.Context, c *client.Client, arg string) (palyra.Digest, error) {
	number, err := strconv.ParseInt(arg, 10, 64)
	if err != nil {
		if d := palyra.Digest(arg); d == "" || d.Valid() {
			return d, nil
		}
		return "", exit.Usagef("%q is not a digest (sha256: and 64 hex digits), nor a number of 'palyra policy history'", arg)
	}
	list, err := c.Activations(ctx, maxHistory)
	if err != nil {
		return "", err
	}
	for _, x := range list {
		if x.Number == number {
			return x.Bundle, nil
		}
	}
	return "", exit.Failedf(palyra.ReasonNotFound, "nothing was put into force with the number %d; see 'palyra policy history'", number)
}
