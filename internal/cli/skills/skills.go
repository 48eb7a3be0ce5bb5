// Package skills is `palyra skills`: making skills, installing them, saying whose they may be, and looking at them.
package skills

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/durable"
	"palyra/internal/show"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
	"palyra/internal/skill/project"
	"palyra/internal/skill/scaffold"
)

// Command is `palyra skills`.
func Command(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("skills", "Make, install and look after skills: tools that can do what they were granted, and nothing else",
		initCommand(inv), buildCommand(inv), packCommand(inv), signCommand(inv), verifyCommand(inv), installCommand(inv),
		importCommand(inv), listCommand(inv),
		showCommand(inv), enableCommand(inv), quarantineCommand(inv), shrinkCommand(inv), removeCommand(inv), trustCommand(inv))
}

// directory opens the directory of a skill: the one that is named, or where we are.
func directory(args []string) (*os.Root, string, error) {
	dir := "."
	if len(args) > 0 {
		dir = args[0]
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", exit.Failedf(palyra.ReasonFileNotFound, "%s cannot be opened as a directory", dir).
			WithRemedy("name the directory of a skill; 'palyra skills init NAME' makes one")
	}
	return root, dir, nil
}

func initCommand(inv *invocation.Invocation) *cobra.Command {
	var language, publisher string
	cmd := &cobra.Command{
		Use: "init NAME", Short: "Begin a skill: a directory with a manifest and a tool that works", Args: syntax.Takes("NAME"),
		Long: "Makes the directory NAME with skill.toml, README.md and the source of a tool that works,\n" +
			"in Go (a WASI module, built by the Go toolchain) or C (built by clang and wasi-libc).\n" +
			"Nothing leaves your machine. 'palyra skills build' is next.",
		Example: "  palyra skills init demo\n  palyra skills init demo --lang c --publisher acme",
		RunE: func(_ *cobra.Command, args []string) error {
			if publisher == "" {
				publisher = login()
			}
			files, err := scaffold.Files(language, scaffold.Values{ID: args[0], Publisher: publisher})
			if err != nil {
				return err
			}
			if err := os.Mkdir(args[0], 0o755); err != nil {
				return exit.Failedf(palyra.ReasonExists, "the directory %s cannot be made: it is there already, or you may not", args[0]).
					WithRemedy("choose another name, or another place")
			}
			for name, text := range files {
				at := filepath.Join(args[0], filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					return fmt.Errorf("skills: init: %w", err)
				}
				if err := durable.WriteFile(at, text, 0o644); err != nil {
					return fmt.Errorf("skills: init: %w", err)
				}
			}
			return inv.Emit(map[string]string{"id": args[0], "directory": args[0], "language": language, "publisher": publisher}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: a skill in %s, by %s\n", show.Line(args[0]), show.Line(language), show.Line(publisher))
				inv.Say("palyra: build it and make a package of it: palyra skills build %[1]s && palyra skills pack %[1]s", show.Arg(args[0]))
			})
		},
	}
	cmd.Flags().StringVar(&language, "lang", "go", "language: "+strings.Join(scaffold.Languages(), " or "))
	cmd.Flags().StringVar(&publisher, "publisher", "", "who publishes it (default: your login)")
	_ = cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(scaffold.Languages(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// login is the person's login, as far as it can name a publisher.
func login() string {
	u, err := user.Current()
	if err != nil {
		return "me"
	}
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(u.Username)), "-")
	if name == "" || len(name) > 40 || strings.HasPrefix(name, "palyra") {
		return "me"
	}
	return name
}

// packed is a package as commands show it.
type packed struct {
	skill.Manifest
	File   string        `json:"file"`
	Digest palyra.Digest `json:"digest"`
	Bytes  int64         `json:"bytes"`
	KeyID  string        `json:"key_id,omitempty"`
	Files  []string      `json:"files"`
	Left   []string      `json:"left_out,omitempty"`
}

func packCommand(inv *invocation.Invocation) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "pack [DIR]", Short: "Make a package of a skill's directory", Args: syntax.Takes("[DIR]"),
		Long: "Writes ID-VERSION.skill: the manifest, README.md, the modules and folder/, with a bill of\n" +
			"materials (CycloneDX) and how the modules were built. Equal directories give equal bytes.\n" +
			"'palyra skills sign' is next.",
		Example: "  palyra skills pack\n  palyra skills pack demo --out demo.skill",
		RunE: func(_ *cobra.Command, args []string) error {
			root, _, err := directory(args)
			if err != nil {
				return err
			}
			defer root.Close()
			p, err := project.Read(root)
			if err != nil {
				return err
			}
			raw, err := p.Pack()
			if err != nil {
				return err
			}
			if out == "" {
				out = archive.FileName(p.Manifest)
			}
			if err := durable.WriteFile(out, raw, 0o644); err != nil {
				return exit.Failedf(palyra.ReasonInternal, "cannot write %s: %v", out, err).WithRemedy("name a file that you can write: --out FILE")
			}
			return printPacked(inv, out, raw, p.Left, func() {
				inv.Say("palyra: sign it: palyra skills sign %s", show.Arg(out))
			})
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file of the package (default: ID-VERSION.skill, here)")
	_ = cmd.MarkFlagFilename("out", "skill")
	return cmd
}

// printPacked shows a package as it is on disk.
func printPacked(inv *invocation.Invocation, file string, raw []byte, left []string, next func()) error {
	p, err := archive.Open(raw)
	if err != nil {
		return err
	}
	x := packed{Manifest: p.Manifest, File: file, Digest: p.Digest, Bytes: p.Bytes, Files: p.Names(), Left: left}
	if key, err := p.SignedBy(); err == nil {
		x.KeyID = key
	}
	return inv.Emit(x, func(w io.Writer) {
		printManifest(w, x)
		if len(left) > 0 {
			inv.Say("palyra: left out: %s", show.Line(strings.Join(left, ", ")))
		}
		next()
	})
}

// printManifest shows what a package says of itself, which a stranger wrote.
func printManifest(w io.Writer, x packed) {
	key := x.KeyID
	if key == "" {
		key = "nobody yet"
	}
	pairs := []screen.Pair{
		{"Package", x.File},
		{"Skill", x.ID + " " + x.Version},
		{"Publisher", x.Publisher},
		{"Signed by", key},
		{"Digest", string(x.Digest)},
		{"Size", screen.Size(x.Bytes)},
		{"Says", x.Description},
	}
	screen.Fields(w, append(pairs, aboutManifest(x.Manifest)...)...)
}

// aboutManifest are the tools of a manifest, and what it asks for.
func aboutManifest(m skill.Manifest) (pairs []screen.Pair) {
	for _, t := range m.Tools {
		pairs = append(pairs, screen.Pair{"Tool", string(skill.ToolName(m.ID, t.Name)) + ": " + t.Description})
	}
	if m.Folder != nil {
		pairs = append(pairs, screen.Pair{"Folder", "SKILL.md; scripts: " + strings.Join(m.Folder.Scripts, ", ")})
	}
	for _, line := range m.Capabilities.Lines() {
		pairs = append(pairs, screen.Pair{"Asks for", line})
	}
	if m.Capabilities.Empty() {
		pairs = append(pairs, screen.Pair{"Asks for", "nothing beyond its arguments"})
	}
	return pairs
}

// readPackage reads the file of a package.
func readPackage(ctx context.Context, name string) (*archive.Package, []byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, exit.Failedf(palyra.ReasonFileNotFound, "%s cannot be read", name).WithRemedy("name a package: a file NAME.skill")
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, nil, exit.Failedf(palyra.ReasonFileNotFound, "%s is a directory, and no package", name).
			WithRemedy("make a package of it: palyra skills pack %s", show.Arg(name))
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, archive.MaxBytes+1))
	if err != nil {
		return nil, nil, exit.Failedf(palyra.ReasonFileNotFound, "%s cannot be read", name).WithRemedy("name a package: a file NAME.skill")
	}
	p, err := archive.Open(raw)
	return p, raw, err
}
