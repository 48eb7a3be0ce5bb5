package wholeagent

import (
	"context"

	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
)

// Names lists the agents.
func (o *Options) Names() []string { return Names() }

// Check refuses a name that is not known.
func (o *Options) Check(name string) error {
	_, err := Find(name)
	return err
}

// Prepare fills the options of the call that starts an agent and returns the command; none: there is only something to print.
func (o *Options) Prepare(ctx context.Context, inv *invocation.Invocation, given *proposal.Options, name string, args []string) (
	argv []string, headless bool, err error,
) {
	st, err := Prepare(ctx, inv, *o, given, name, args)
	if err != nil {
		return nil, false, err
	}
	if o.Print {
		return nil, st.Headless, inv.Emit(st, st.Say)
	}
	if err := st.Write(inv); err != nil {
		return nil, false, err
	}
	o.sayNoKey(inv, st)
	st.Into(given)
	return st.Command, st.Headless, nil
}
