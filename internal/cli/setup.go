package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/screen"
	"palyra/internal/config"
	"palyra/internal/durable"
	"palyra/internal/show"

	profiles "palyra/internal/profile"
)

func (a *app) setup() *cobra.Command {
	var s setting
	cmd := &cobra.Command{
		Use: "setup", Short: "Let sandboxes see the toolchains of your home directory", Args: takes(),
		Long: "Sandboxes see nothing of your home directory. This looks for toolchains there (Go,\n" +
			"nvm, fnm, volta, pyenv, uv, rustup and more), shows them, asks, and writes a profile\n" +
			"by which runs see them, read-only. Nothing else of your home becomes visible. Run it\n" +
			"again after installing another version. Needs no daemon.",
		Example: "  palyra setup\n  palyra setup --print\n  palyra setup --yes --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config()
			if err != nil {
				return err
			}
			s.app, s.File = a, filepath.Join(profileDir(c.Paths), profiles.Toolchains+".toml")
			return s.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVarP(&s.yes, "yes", "y", false, "write it without a question")
	cmd.Flags().BoolVar(&s.print, "print", false, "print the profile and write nothing")
	return cmd
}

// profileDir is where the operator's profiles are.
func profileDir(p config.Paths) string { return filepath.Join(filepath.Dir(p.Config), "profiles") }

// setting is one run of setup, and its result.
type setting struct {
	*app       `json:"-"`
	yes, print bool

	Toolchains []profiles.Toolchain `json:"toolchains"`
	File       string               `json:"file"`
	Written    bool                 `json:"written"`
	text       []byte
}

func (s *setting) run(ctx context.Context) error {
	if s.asJSON && !s.yes && !s.print {
		return usage("--json asks nothing: add --yes to write, or --print")
	}
	home, ok := s.variable("HOME")
	if !ok || !filepath.IsAbs(home) {
		return failed(palyra.ReasonConfig, "HOME is not set to an absolute path").WithRemedy("set HOME to your home directory")
	}
	list, err := profiles.Find(filepath.Clean(home))
	if err != nil {
		return err
	}
	if s.Toolchains = screen.Some(list); len(list) == 0 {
		return s.emit(s, func(w io.Writer) {
			fmt.Fprintln(w, "no toolchains were found in your home directory; those of the system are visible anyway")
		})
	}
	if s.text, err = profiles.Document(list); err != nil {
		return err
	}
	if s.print {
		return s.emit(s, func(w io.Writer) { _, _ = w.Write(s.text) })
	}
	return s.write(ctx)
}

// variable is one of the environment.
func (a *app) variable(name string) (string, bool) {
	for i := len(a.Env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(a.Env[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// write replaces the profile, if it says something else and the person agrees.
func (s *setting) write(ctx context.Context) error {
	old, err := os.ReadFile(s.File)
	switch {
	case err == nil && bytes.Equal(old, s.text):
		return s.emit(s, func(w io.Writer) {
			s.list(w)
			fmt.Fprintf(w, "%s is up to date\n", show.Line(s.File))
		})
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return failed(palyra.ReasonConfig, "%s cannot be read: %v", show.Line(s.File), err)
	}
	if !s.yes {
		s.list(s.Stderr)
		if err == nil {
			s.say("%s says something else and will be replaced.", show.Line(s.File))
		}
		agreed, err := s.agree(ctx)
		if err != nil || !agreed {
			return err
		}
	}
	if err := save(s.File, s.text); err != nil {
		return err
	}
	s.Written = true
	return s.emit(s, func(w io.Writer) {
		if s.yes {
			s.list(w)
		}
		fmt.Fprintf(w, "%s: written; runs see these directories from now on\n", show.Line(s.File))
	})
}

// list shows what was found.
func (s *setting) list(w io.Writer) {
	var rows [][]string
	for _, t := range s.Toolchains {
		rows = append(rows, []string{t.What, strings.Join(t.Mounts, ", ")})
	}
	screen.Table(w, []string{"TOOLCHAIN", "VISIBLE, READ-ONLY"}, rows)
}

// agree asks the person.
func (s *setting) agree(ctx context.Context) (bool, error) {
	if !s.interactive() {
		return false, failed(palyra.ReasonCancelled, "there is nobody to ask").WithRemedy("run it on a terminal, or with --yes")
	}
	answer, err := askLine(ctx, "Let sandboxes see these? [y/N] ")
	if err != nil {
		return false, err
	}
	if a := strings.ToLower(answer); a == "y" || a == "yes" {
		return true, nil
	}
	s.say("nothing was written")
	return false, nil
}

// save writes a profile that nobody else can change.
func save(path string, text []byte) error {
	dir := filepath.Dir(path)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = durable.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return failed(palyra.ReasonConfig, "cannot write %s: %v", show.Line(path), err).WithRemedy("let yourself write to %s", show.Line(dir))
	}
	return nil
}
