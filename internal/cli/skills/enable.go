package skills

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
)

// enableFlags are those of skills enable.
type enableFlags struct {
	all    bool
	grant  []string
	digest string
}

func enableCommand(inv *invocation.Invocation) *cobra.Command {
	var f enableFlags
	cmd := &cobra.Command{
		Use: "enable ID", Short: "Offer the tools of a skill, with what you grant it", Args: syntax.Takes("ID"),
		ValidArgsFunction: completeSkills(inv),
		Long: "Makes a skill active. What it asks for ('palyra skills show ID') is granted by --all, or one\n" +
			"by one by --grant KIND:VALUE; nothing else is. Policy still judges every call, and what was\n" +
			"not granted is not there for it. --digest says which package you looked at; without it\n" +
			"it is the one that is installed now.",
		Example: "  palyra skills enable demo\n  palyra skills enable weather --grant hosts:api.example.com:443 --grant storage:cache/",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.Skill(ctx, args[0])
			if err != nil {
				return err
			}
			granted, err := f.granted(s)
			if err != nil {
				return err
			}
			digest := s.Digest
			if f.digest != "" {
				digest = palyra.Digest(f.digest)
			}
			s, err = c.EnableSkill(ctx, s.ID, digest, granted)
			return inv.Answer(err, whole(s), func(w io.Writer) { enabled(inv, w, s) })
		}),
	}
	cmd.Flags().BoolVar(&f.all, "all", false, "grant all that it asks for")
	cmd.Flags().StringArrayVar(&f.grant, "grant", nil, "grant this of what it asks for, as KIND:VALUE (repeatable)")
	cmd.Flags().StringVar(&f.digest, "digest", "", "the package that you looked at")
	return cmd
}

// granted is what the flags say. Nobody grants anything by saying nothing.
func (f enableFlags) granted(s skill.Skill) (skill.Capabilities, error) {
	switch {
	case f.all && len(f.grant) > 0:
		return skill.Capabilities{}, exit.Usagef("--all and --grant say two things")
	case f.all:
		return s.Capabilities, nil
	case len(f.grant) == 0 && !s.Capabilities.Empty():
		return skill.Capabilities{}, exit.Usagef("%s asks for %s: grant all of it with --all, or what you want with --grant KIND:VALUE",
			show.Line(s.ID), show.Line(strings.Join(s.Capabilities.Lines(), "; ")))
	}
	c, err := skill.CapabilitiesOf(f.grant)
	if err != nil {
		return c, exit.Usagef("%v: %s", err, palyra.AsError(err).Remedy)
	}
	return c, nil
}

func enabled(inv *invocation.Invocation, w io.Writer, s skill.Skill) {
	fmt.Fprintf(w, "%s: %s\n", show.Line(s.ID), show.Line(string(s.State)))
	for _, line := range s.Granted.Lines() {
		screen.Fields(w, screen.Pair{"Granted", line})
	}
	if s.Folder != nil && len(s.Folder.Scripts) > 0 {
		inv.Say("palyra: its scripts can be run: palyra tools show %s", show.Arg(string(skill.ToolName(s.ID, skill.FolderRun))))
	}
	for _, t := range s.Tools {
		inv.Say("palyra: it can be called: palyra tools show %s", show.Arg(string(skill.ToolName(s.ID, t.Name))))
	}
}

func trustCommand(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("trust", "Say whose skills may be installed, by their keys",
		trustAddCommand(inv), trustListCommand(inv), trustRevokeCommand(inv))
}

func trustAddCommand(inv *invocation.Invocation) *cobra.Command {
	var own bool
	cmd := &cobra.Command{
		Use: "add (NAME KEY | --own)", Short: "Trust a publisher's key",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case own && len(args) > 0:
				return exit.Usagef("--own is your key and your login: nothing else goes with it")
			case !own && len(args) == 0:
				return exit.Usagef("NAME and KEY are missing; --own is your own key, under your login")
			case !own && len(args) < 2:
				return exit.Usagef("KEY is missing")
			case len(args) > 2:
				return exit.Usagef("%q is one argument too many", args[2])
			}
			return nil
		},
		Long: "Skills that this key signed, under this publisher's name, may be installed from here on.\n" +
			"KEY is the public key in base64, or a PEM file. Compare it with what the publisher says,\n" +
			"on another way than the one by which the package came. --own is your own key, under your login.",
		Example: "  palyra skills trust add acme MCowBQYDK2VwAyEA…\n  palyra skills trust add acme acme.pub\n  palyra skills trust add --own",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			name, key := login(), ""
			if !own {
				name, key = args[0], args[1]
			}
			pub, err := publicKey(inv, key, "KEY")
			if err != nil {
				return err
			}
			p, err := trust(ctx, inv, c, name, pub, own)
			return inv.Answer(err, p, func(w io.Writer) { fmt.Fprintf(w, "%s: trusted, key %s\n", show.Line(p.Name), show.Line(p.KeyID)) })
		}),
	}
	cmd.Flags().BoolVar(&own, "own", false, "your own key, under your login")
	return cmd
}

// trust trusts a key. The person's own may be trusted already; where it was revoked, it is said how to get another one.
func trust(ctx context.Context, inv *invocation.Invocation, c *client.Client, name string, pub ed25519.PublicKey, own bool) (
	skill.Publisher, error,
) {
	p, err := c.TrustPublisher(ctx, name, archive.PublicText(pub))
	if err == nil || !own {
		return p, err
	}
	switch e := palyra.AsError(err); e.Reason {
	case palyra.ReasonExists:
		all, bad := c.Publishers(ctx)
		i := slices.IndexFunc(all, func(p skill.Publisher) bool { return p.KeyID == archive.KeyID(pub) && p.Name == name })
		if bad == nil && i >= 0 {
			return all[i], nil
		}
	case skill.ReasonUntrusted:
		if path, bad := ownKey(inv); bad == nil {
			return p, palyra.Errorf(e.Code, e.Reason, "%s", e.Text).
				WithRemedy("it is your own: move %s away, and 'palyra skills sign' makes a new one", show.Arg(path))
		}
	}
	return p, err
}

func trustListCommand(inv *invocation.Invocation) *cobra.Command {
	return invocation.List[skill.Publisher]{
		Short: "List the keys of publishers", Example: "  palyra skills trust list",
		Name: "publishers", Find: (*client.Client).Publishers,
		Head: []string{"PUBLISHER", "KEY", "ADDED", "REVOKED"},
		Row: func(p skill.Publisher) []string {
			return []string{p.Name, p.KeyID, screen.Stamp(p.AddedAt), screen.Stamp(p.RevokedAt)}
		},
	}.Command(inv)
}

func trustRevokeCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "revoke KEY-ID", Short: "Trust a key no more, at once, with all its skills", Args: syntax.Takes("KEY-ID"),
		Long: "The skills that the key signed are not offered from this moment on, and their calls under way\n" +
			"are ended. A key that was revoked cannot be trusted again.",
		Example: "  palyra skills trust revoke pub-0123456789abcdef0123456789abcdef",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := c.RevokePublisher(ctx, args[0])
			return inv.Answer(err, p, func(w io.Writer) { fmt.Fprintf(w, "%s: revoked\n", show.Line(p.KeyID)) })
		}),
	}
}
