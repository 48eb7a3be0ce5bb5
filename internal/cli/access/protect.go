package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
	"palyra/internal/durable"
	"palyra/internal/show"
)

func operatorProtectCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "protect", Short: "Replace your key by one behind a passphrase", Args: syntax.Takes(),
		Example: "  palyra operator protect",
		Long: "Makes a new key, puts it behind a passphrase, makes it known to the daemon in place\n" +
			"of the old one, and ends the old one, which any program of yours could have read.\n" +
			"The passphrase is read from the terminal and nowhere else.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := inv.Config()
			if err != nil {
				return err
			}
			p := protection{inv: inv, path: c.Paths.OperatorKey}
			return p.run(cmd.Context())
		},
	}
}

// protection replaces a bare key by a protected one. The order of its steps lets the operator sign at every
// moment: the daemon knows the new key before the old file goes, and the old key ends last.
type protection struct {
	inv  *invocation.Invocation
	path string
}

func (p *protection) run(ctx context.Context) error {
	old, err := client.LoadSigner(p.path, nil)
	if err != nil {
		return err
	}
	defer old.Close()
	if old.Separation() != palyra.SeparationNone {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "the key %s is already behind a passphrase", old.KeyID())
	}
	c, err := p.inv.OperatorAs(old)
	if err != nil {
		return err
	}
	defer c.Close()
	me, err := registered(ctx, c, old.KeyID())
	if err != nil {
		return err
	}
	pass, err := p.inv.NewPassphrase(ctx)
	if err != nil {
		return err
	}
	defer pass.Destroy()
	fresh, err := p.makeKey(pass)
	if err != nil {
		return err
	}
	defer fresh.Close()
	added, err := c.AddOperator(ctx, palyra.Operator{
		Principal: me.Principal, Role: me.Role, PublicKey: fresh.Public(), Separation: palyra.SeparationPassphrase,
	})
	if err != nil {
		_ = os.Remove(p.newPath())
		return err
	}
	if err := p.swap(); err != nil {
		return err
	}
	if err := p.endOld(ctx, fresh, old.KeyID()); err != nil {
		return err
	}
	return p.inv.Emit(added, func(w io.Writer) {
		fmt.Fprintf(w, "%s: in force, behind your passphrase, in %s\n%s: ended\n", show.Line(added.KeyID), show.Arg(p.path),
			show.Line(old.KeyID()))
	})
}

// registered finds the person's own entry.
func registered(ctx context.Context, c *client.Client, keyID string) (palyra.Operator, error) {
	list, err := c.Operators(ctx)
	if err != nil {
		return palyra.Operator{}, err
	}
	for _, o := range list {
		if o.KeyID == keyID && o.RemovedAt.IsZero() {
			return o, nil
		}
	}
	return palyra.Operator{}, palyra.Errorf(palyra.Denied, palyra.ReasonUnknownKey, "the daemon does not know your key %s", keyID).
		WithRemedy("have an owner add it: palyra operator add")
}

func (p *protection) newPath() string { return p.path + ".new" }

// makeKey makes the new key beside the old one. It replaces one that an earlier attempt left, which
// never came into force.
func (p *protection) makeKey(pass palyra.Secret) (*client.OperatorKey, error) {
	if err := os.Remove(p.newPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cli: protect: %w", err)
	}
	return client.CreateProtectedKey(p.newPath(), pass)
}

// swap puts the new key file in the old one's place, for good.
func (p *protection) swap() error {
	err := os.Rename(p.newPath(), p.path)
	if err == nil {
		err = durable.SyncDir(filepath.Dir(p.path))
	}
	if err != nil {
		return exit.Failedf(palyra.ReasonInternal, "the new key is known to the daemon but not in place: %v", err).
			WithRemedy("move %s to %s yourself", p.newPath(), p.path)
	}
	return nil
}

// endOld ends the old key with the new one's signature.
func (p *protection) endOld(ctx context.Context, fresh client.Signer, keyID string) error {
	c, err := p.inv.OperatorAs(fresh)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.RemoveOperator(ctx, keyID); err != nil {
		e := palyra.AsError(err)
		return palyra.Errorf(e.Code, e.Reason, "the new key is in force, but the old one is not ended: %s", e.Text).
			WithRemedy("palyra operator remove %s", keyID)
	}
	return nil
}
