package configuration

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
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"

	profiles "palyra/internal/profile"
)

// toolchainsCommand is `palyra config toolchains`.
func toolchainsCommand(inv *invocation.Invocation) *cobra.Command {
	var s setting
	cmd := &cobra.Command{
		Use: "toolchains", Short: "Let sandboxes see the toolchains of your home directory", Args: syntax.Takes(),
		Long: "Sandboxes see nothing of your home directory. This looks for toolchains there (Go,\n" +
			"nvm, fnm, volta, pyenv, uv, rustup, mise, asdf and more) and in Homebrew's, shows\n" +
			"them, asks, and writes a profile by which runs see them, read-only. Nothing else of\n" +
			"your home becomes visible. Run it again after installing another version. Needs no\n" +
			"daemon. 'palyra sandbox doctor --tools' says what works inside then.",
		Example: "  palyra config toolchains\n  palyra config toolchains --print\n  palyra config toolchains --yes --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := inv.Config()
			if err != nil {
				return err
			}
			s.inv, s.File = inv, filepath.Join(c.Paths.Profiles(), profiles.Toolchains+".toml")
			return s.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVarP(&s.yes, "yes", "y", false, "write it without a question")
	cmd.Flags().BoolVar(&s.print, "print", false, "print the profile and write nothing")
	return cmd
}

// setting is one run of it, and its result.
type setting struct {
	inv        *invocation.Invocation `json:"-"`
	yes, print bool

	Toolchains []profiles.Toolchain `json:"toolchains"`
	File       string               `json:"file"`
	Written    bool                 `json:"written"`
	text       []byte
}

func (s *setting) run(ctx context.Context) error {
	if s.inv.JSON && !s.yes && !s.print {
		return exit.Usagef("--json asks nothing: add --yes to write, or --print")
	}
	home, ok := s.inv.Variable("HOME")
	if !ok || !filepath.IsAbs(home) {
		return exit.Failedf(palyra.ReasonConfig, "HOME is not set to an absolute path").WithRemedy("set HOME to your home directory")
	}
	list, err := profiles.Find(filepath.Clean(home))
	if err != nil {
		return err
	}
	if s.Toolchains = screen.Some(list); len(list) == 0 {
		return s.inv.Emit(s, func(w io.Writer) {
			fmt.Fprintln(w, "no toolchains were found in your home directory; those of the system are visible anyway")
		})
	}
	if s.text, err = profiles.Document(list); err != nil {
		return err
	}
	if s.print {
		return s.inv.Emit(s, func(w io.Writer) { _, _ = w.Write(s.text) })
	}
	return s.write(ctx)
}

// write replaces the profile, if its text differs and the person agrees.
func (s *setting) write(ctx context.Context) error {
	old, err := os.ReadFile(s.File)
	switch {
	case err == nil && bytes.Equal(old, s.text):
		return s.inv.Emit(s, func(w io.Writer) {
			s.list(w)
			fmt.Fprintf(w, "%s is up to date\n", show.Line(s.File))
		})
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return exit.Failedf(palyra.ReasonConfig, "%s cannot be read: %v", show.Line(s.File), err)
	}
	if !s.yes {
		s.list(s.inv.Stderr)
		if err == nil {
			s.inv.Say("%s says something else and will be replaced.", show.Line(s.File))
		}
		agreed, err := s.agree(ctx)
		if err != nil || !agreed {
			return err
		}
	}
	if err := profiles.Save(s.File, s.text); err != nil {
		return err
	}
	s.Written = true
	return s.inv.Emit(s, func(w io.Writer) {
		if s.yes {
			s.list(w)
		}
		fmt.Fprintf(w, "%s: written; runs see these directories from now on\n", show.Line(s.File))
	})
}

// list shows the programs found.
func (s *setting) list(w io.Writer) {
	var rows [][]string
	for _, t := range s.Toolchains {
		rows = append(rows, []string{t.What, strings.Join(t.Mounts, ", ")})
	}
	screen.Table(w, []string{"TOOLCHAIN", "VISIBLE, READ-ONLY"}, rows)
}

// agree asks the person.
func (s *setting) agree(ctx context.Context) (bool, error) {
	if !s.inv.Interactive() {
		return false, exit.Failedf(palyra.ReasonCancelled, "there is nobody to ask").WithRemedy("run it on a terminal, or with --yes")
	}
	answer, err := terminal.AskLine(ctx, "Let sandboxes see these? [y/N] ")
	if err != nil {
		return false, err
	}
	if a := strings.ToLower(answer); a == "y" || a == "yes" {
		return true, nil
	}
	s.inv.Say("nothing was written")
	return false, nil
}
