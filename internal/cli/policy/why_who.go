package policy

import (
	"context"

	"palyra"
	"palyra/internal/cli/invocation"
)

// speaker settles the caller, where none is given: the one that 'palyra exec' would call as. A
// named agent's token in the environment makes it that agent. A token that could not call at all is
// an error, because an answer for another caller would look like its own.
func speaker(ctx context.Context, inv *invocation.Invocation, o *whyOptions) error {
	if o.principal != "" || inv.RemoteName() != "" {
		return nil
	}
	c, err := inv.ByHand()
	if err != nil {
		return err
	}
	defer c.Close()
	me, err := c.WhoAmI(ctx)
	if err != nil {
		return err
	}
	if !me.Principal.IsAgent() {
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "the token in %s is that of %s, who cannot call tools with it",
			inv.TokenFile(), me.Principal).
			WithRemedy("unset %s, or say who would call with --principal", invocation.TokenVariable)
	}
	o.principal = string(me.Principal)
	return nil
}
