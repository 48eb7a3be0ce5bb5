package execute

import (
	"context"
	"fmt"
	"io"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/hostport"
	"palyra/internal/show"
)

// begun is a background process that runs, as JSON.
type begun struct {
	Process palyra.CallID `json:"process_id"`
	State   palyra.State  `json:"state"`
	Publish []string      `json:"publish"`
}

// atOnce is how soon a process ends that never got to work.
const atOnce = 500 * time.Millisecond

// start makes a call of a background process and returns when it runs, with its id, or with the outcome of one that
// does not, or that ends at once. When ctx ends first the call is cancelled.
func (a *Asker) start(ctx context.Context, c client.Caller, r client.CallRequest) (palyra.CallID, palyra.Outcome, error) {
	call := client.Follow(c, r, client.FollowOptions{
		Watch: func(e client.CallEvent) { a.news(ctx, e, func(client.CallEvent) {}) }, Cancelling: a.cancelling,
	})
	defer a.End()
	select {
	case <-call.Running():
		select {
		case <-call.Done():
		case <-ctx.Done():
		case <-time.After(atOnce):
			call.Close()
			return call.ID(), palyra.Outcome{}, nil
		}
	case <-call.Done():
	case <-ctx.Done():
	}
	outcome, err := call.Wait(ctx)
	return "", outcome, err
}

// startInBackground starts a background process and says how it is called.
func startInBackground(ctx context.Context, inv *invocation.Invocation, c caller, r client.CallRequest) error {
	id, outcome, err := (&Asker{inv: inv, noWait: r.NoWait}).start(ctx, c, r)
	if err != nil {
		return err
	}
	if id == "" {
		if err := printOutcome(inv, outcome); err != nil {
			return err
		}
		return exit.Error{Code: exit.OfExec(outcome)}
	}
	x, err := c.GetCall(ctx, id)
	if err != nil {
		return err
	}
	return inv.Emit(begun{id, palyra.Running, append([]string{}, x.Plan.Publish...)}, func(w io.Writer) {
		fmt.Fprintln(w, show.Line(string(id)))
		ports, _ := hostport.ParseAll(x.Plan.Publish)
		for _, at := range ports {
			inv.Say("palyra: published at 127.0.0.1:%d", at.Host)
		}
		name := show.Arg(string(id))
		inv.Say("palyra: it goes on in the background: palyra processes output %s, palyra processes stop %s", name, name)
	})
}

// execInBackground is 'exec --background'.
func execInBackground(ctx context.Context, inv *invocation.Invocation, o proposal.Options, argv []string) error {
	door := inv.ByHand
	if o.AsAgent {
		door, inv.ForAgent = inv.Agent, true
	}
	c, err := door()
	if err != nil {
		return err
	}
	defer c.Close()
	x := &execution{inv: inv, client: c}
	if err := x.place(ctx, &o); err != nil {
		return err
	}
	script, err := x.readScript(ctx, c, &o)
	if err != nil {
		return err
	}
	r, err := o.Request(argv, script, proposal.Input{}, nil)
	if err != nil {
		return err
	}
	return startInBackground(ctx, inv, c, r)
}

// place finds the directories that a command works in.
func (x *execution) place(ctx context.Context, o *proposal.Options) (err error) {
	if o.Workspace == "" && o.Cwd == "" {
		o.Workspace, o.Cwd = x.inv.Nearest(ctx)
	}
	o.Workspace, err = x.inv.WorkspaceOf(o.Workspace)
	return err
}
