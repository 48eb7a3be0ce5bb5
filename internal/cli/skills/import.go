package skills

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
	"palyra/internal/skill/folder"
	"palyra/internal/skill/project"
)

func importCommand(inv *invocation.Invocation) *cobra.Command {
	var also []string
	cmd := &cobra.Command{
		Use: "import DIR|FILE", Short: "Take a folder with a SKILL.md into quarantine, and show what it wants",
		Args: syntax.Takes("DIR|FILE"),
		Long: "Makes a package of an ordinary folder, with a manifest of what its scripts seem to want,\n" +
			"signs it with your publisher key, which you trust by this, and installs it in quarantine.\n" +
			"FILE is such a folder as people publish it: .zip, .skill, .tar, .tar.gz, or a SKILL.md alone.\n" +
			"Agents read an enabled one by its tool skill.ID.read, and run its scripts by skill.ID.run,\n" +
			"each in a sandbox that has what you grant and nothing else. What a script hides is not found:\n" +
			"--also has the skill ask for more.",
		Example: "  palyra skills import ~/.claude/skills/pdf\n  palyra skills import pdf.zip --also secrets:my-api",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			raw, left, err := packFolder(inv, args[0], also)
			if err != nil {
				return err
			}
			pub, err := publicKey(inv, "", "--key")
			if err != nil {
				return err
			}
			if _, err := trust(ctx, inv, c, login(), pub, true); err != nil {
				return err
			}
			s, err := c.InstallSkill(ctx, raw, false)
			return inv.Answer(err, whole(s), func(w io.Writer) {
				installed(inv, w, s)
				if len(left) > 0 {
					inv.Say("palyra: left out: %s", show.Line(show.Argv(left)))
				}
			})
		}),
	}
	cmd.Flags().StringArrayVar(&also, "also", nil, "ask for this as well, as KIND:VALUE: what was not found in the scripts (repeatable)")
	return cmd
}

// packFolder makes a signed package of a folder, or of what somebody published as one file.
func packFolder(inv *invocation.Invocation, from string, also []string) (raw []byte, left []string, err error) {
	files, name, left, err := readFolder(from)
	if err != nil {
		return nil, nil, err
	}
	m, err := folder.Manifest(files, name, login())
	if err != nil {
		return nil, nil, err
	}
	more, err := skill.CapabilitiesOf(also)
	if err != nil {
		return nil, nil, exit.Usagef("%v", err)
	}
	for _, kind := range skill.Kinds() {
		m.Capabilities = m.Capabilities.Add(kind, more.Of(kind)...)
	}
	if m, err = skill.Check(m); err != nil {
		return nil, nil, err
	}
	text, err := skill.Write(m)
	if err != nil {
		return nil, nil, err
	}
	files[skill.ManifestName] = text
	p := project.Project{Manifest: m, Files: files}
	if raw, err = p.Pack(); err != nil {
		return nil, nil, err
	}
	opened, err := archive.Open(raw)
	if err != nil {
		return nil, nil, err
	}
	key, err := publisherKey(inv, "")
	if err != nil {
		return nil, nil, err
	}
	defer clear(key)
	raw, err = archive.Sign(opened, key)
	return raw, left, err
}

// readFolder reads the files of a folder, and what it is called.
func readFolder(from string) (files map[string][]byte, name string, left []string, err error) {
	if st, err := os.Stat(from); err == nil && st.Mode().IsRegular() {
		f, err := os.Open(from)
		if err != nil {
			return nil, "", nil, err
		}
		defer f.Close()
		raw, err := io.ReadAll(io.LimitReader(f, archive.MaxBytes+1))
		if err != nil {
			return nil, "", nil, err
		}
		files, left, err = folder.Unpack(raw)
		if name = folder.NameOf(filepath.ToSlash(from)); strings.EqualFold(name, "SKILL") { // a text alone, named by where it lies
			if dir, err := filepath.Abs(filepath.Dir(from)); err == nil {
				name = filepath.Base(dir)
			}
		}
		return files, name, left, err
	}
	root, dir, err := directory([]string{from})
	if err != nil {
		return nil, "", nil, err
	}
	defer root.Close()
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, "", nil, err
	}
	files = map[string][]byte{}
	left, err = project.Folder(root, ".", files)
	return files, filepath.Base(dir), left, err
}
