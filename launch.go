package palyra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Launch is the only thing a runner accepts: a grant whose call was resolved once more, while its granted line became durable
// or after that, to the very plan that was judged. Its fields are closed and Confirm is the only maker, so no runner can
// forget to look again.
type Launch struct {
	grant *Grant
	weigh Weigher
}

// Confirm compares the plan that the call resolves to now with the one that was judged. Any difference refuses, and
// the refusal names what changed.
func (g Grant) Confirm(now Plan) (Launch, error) {
	if !g.Valid() {
		return Launch{}, Errorf(Denied, ReasonInternal, "there is no grant for this call")
	}
	digest, err := now.Digest()
	if err != nil {
		return Launch{}, err
	}
	if digest != g.digest {
		return Launch{}, PlanChanged(g.plan.Changes(now)...)
	}
	return Launch{grant: &g}, nil
}

// WeighedBy returns the launch with who says what becomes of the changes of the run.
func (l Launch) WeighedBy(w Weigher) Launch {
	l.weigh = w
	return l
}

// Weigh is asked once nothing of a staged run lives. Where nobody weighs, what was granted is kept.
func (l Launch) Weigh(ctx context.Context, s Staged) Ruling {
	if l.weigh == nil {
		return RulingKeep
	}
	return l.weigh(ctx, s)
}

// Plan returns the plan to run.
func (l Launch) Plan() Plan { return cmp.Or(l.grant, &noGrant).plan }

// Digest returns the plan's digest.
func (l Launch) Digest() Digest { return cmp.Or(l.grant, &noGrant).digest }

// Call returns the id of the call it is for.
func (l Launch) Call() CallID { return cmp.Or(l.grant, &noGrant).call }

// Grant returns the id of the grant behind it.
func (l Launch) Grant() GrantID { return cmp.Or(l.grant, &noGrant).id }

// Valid reports whether l came from Confirm.
func (l Launch) Valid() bool { return l.grant != nil && l.grant.Valid() }

// For refuses a launch that is none, or that is for another call.
func (l Launch) For(c *Call) error {
	if !l.Valid() || l.Call() != c.ID {
		return Errorf(Denied, ReasonInternal, "there is no grant for this call")
	}
	return nil
}

var noGrant Grant // behind a launch that is none
const proposeAnew = "look at what changed and propose the call anew"

// PlanChanged refuses a call that would not run as it was judged; what names the differences.
func PlanChanged(what ...string) *Error {
	text := "the call resolves to another plan than the one that was judged"
	if len(what) > 0 {
		text = "changed since the plan was judged: " + few(what)
	}
	return Errorf(Conflict, ReasonPlanChanged, "%s", text).WithRemedy(proposeAnew)
}

// Unresolved says why a call whose plan was judged does not resolve any more. What says nothing about the plan stays as it is.
func (p Plan) Unresolved(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return p.Stopped(ctx, err)
	}
	e := AsError(err)
	if e.Reason == ReasonQuarantined || e.Code == Internal || e.Code == Unavailable || e.Code == Exhausted {
		return err
	}
	return Errorf(Conflict, ReasonPlanChanged, "the plan no longer holds: %s", e.Text).WithRemedy(proposeAnew).WithCause(err)
}

// Stopped tells a call that the end of its context stopped from one that failed by itself, which keeps its error.
func (p Plan) Stopped(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil || !errors.Is(err, ctx.Err()):
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return p.TimedOut().WithCause(err)
	}
	return CallWasCancelled().WithCause(err)
}

// TimedOut refuses a call that ran into the time limit of its plan.
func (p Plan) TimedOut() *Error {
	remedy := "ask for less at once; the most that a call may have is tool_call.execution_timeout_ms, which an operator can raise"
	if p.Staging.Staged() {
		remedy += "; if something waits for files that it writes, use --live: without it they are seen when it has ended"
	}
	return Errorf(Expired, ReasonTimedOut, "the call ran into its time limit of %d ms", p.Limits.WallMS).WithRemedy("%s", remedy)
}

// CallWasCancelled refuses a call that somebody cancelled.
func CallWasCancelled() *Error {
	return Errorf(Expired, ReasonCancelled, "the call was cancelled").WithRemedy("propose it again if it is still wanted")
}

// Changes names what differs between p, the plan that was judged, and the one that would run now, most telling first.
func (p Plan) Changes(now Plan) []string {
	var what []string
	note := func(differs bool, name string) {
		if differs {
			what = append(what, name)
		}
	}
	was, is := p.Executable, now.Executable
	note(was.Path != is.Path || was.Digest != is.Digest, "the executable "+quoted(is.Path))
	note(was.Path == is.Path && was.Digest == is.Digest && was.Sealed != is.Sealed, "who may write the executable "+quoted(is.Path))
	what = append(what, changedInputs(p.Inputs, now.Inputs)...)
	note(!slices.Equal(p.Links, now.Links), "the links that lead to its inputs")
	note(!slices.Equal(p.Argv, now.Argv), "the program's arguments")
	note(p.Cwd != now.Cwd, "the working directory")
	if names := changedVariables(p.Env, now.Env); len(names) > 0 {
		what = append(what, "the environment ("+few(names)+")")
	}
	note(p.Stdin != now.Stdin, "stdin")
	note(p.Staging != now.Staging, "where it writes")
	note(p.Terminal != now.Terminal, "the terminal")
	note(p.Workspace != now.Workspace, "the workspace")
	note(p.Tier != now.Tier, "the tier")
	note(p.Limits != now.Limits, "the limits")
	note(!p.Enforcement.same(now.Enforcement), "what the tier enforces")
	note(!slices.Equal(p.Egress, now.Egress), "the hosts it may reach")
	note(!slices.Equal(p.Publish, now.Publish), "the ports it publishes")
	note(!slices.Equal(p.Bindings, now.Bindings) || !slices.Equal(p.Signers, now.Signers), "the secrets it gets")
	note(p.Profile != now.Profile || !slices.Equal(p.Mounts, now.Mounts) || !slices.Equal(p.Files, now.Files), "the directories it sees")
	note(!slices.Equal(p.Seals, now.Seals), "the paths that are sealed")
	note(p.UnixSockets != now.UnixSockets || p.AgentSocket != now.AgentSocket, "the sockets it may use")
	note(!slices.Equal(p.AgentWithin, now.AgentWithin), "the workspaces that the agent reaches")
	note(!slices.Equal(p.Reads, now.Reads) || !slices.Equal(p.Writes, now.Writes), "the files it names")
	return what
}

// changedInputs returns the paths of bound files that are not as they were.
func changedInputs(was, is []Input) []string {
	var paths []string
	for _, in := range is {
		if !slices.Contains(was, in) {
			paths = append(paths, quoted(in.Path))
		}
	}
	for _, in := range was { // no longer read at all
		if !slices.ContainsFunc(is, func(n Input) bool { return n.Path == in.Path }) {
			paths = append(paths, quoted(in.Path))
		}
	}
	return paths
}

// changedVariables returns the names of variables that are not as they were.
func changedVariables(was, is []EnvVar) []string {
	var names []string
	for _, v := range slices.Concat(is, was) {
		if slices.Contains(was, v) && slices.Contains(is, v) {
			continue
		}
		if name := quoted(v.Name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (e Enforcement) same(o Enforcement) bool {
	return e.Mode == o.Mode && slices.Equal(e.Mechanisms, o.Mechanisms) && maps.Equal(e.Limits, o.Limits)
}

// few joins the first few of a list and counts the rest.
func few(what []string) string {
	const shown = 4
	s := strings.Join(what[:min(shown, len(what))], ", ")
	if n := len(what) - shown; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// quoted quotes a name where it has anything that does not show as itself.
func quoted(name string) string {
	name = Clip(name, 256)
	if q := strconv.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}
