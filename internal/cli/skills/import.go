package skills

import (
	"context"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
	"palyra/internal/skill/folder"
	"palyra/internal/skill/project"
)

func importCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "import DIR", Short: "Take a folder with a SKILL.md into quarantine, and show what it wants", Args: syntax.Takes("DIR"),
		Long: "Makes a package of an ordinary folder, with a manifest of what its scripts seem to want,\n" +
			"signs it with your publisher key, which you trust by this, and installs it in quarantine.\n" +
			"Agents read an enabled one by its tool skill.ID.read. Its scripts are not run by Palyra.",
		Example: "  palyra skills import ~/.claude/skills/pdf",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			raw, left, err := packFolder(inv, args[0])
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
}

// packFolder makes a signed package of a folder.
func packFolder(inv *invocation.Invocation, dir string) (raw []byte, left []string, err error) {
	root, dir, err := directory([]string{dir})
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, nil, err
	}
	files := map[string][]byte{}
	if left, err = project.Folder(root, ".", files); err != nil {
		return nil, nil, err
	}
	m, err := folder.Manifest(files, filepath.Base(dir), login())
	if err != nil {
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
