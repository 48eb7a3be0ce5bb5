package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/screen"
	"palyra/internal/hook"
)

// observed has a call judged and recorded, and leaves it to the agent's own rules; held: calls are held now, and this one
// is decided as usual. What cannot be put on record is blocked: nobody could tell an observation with a hole in it from
// one that was ended, and what the settings say is within the agent's reach.
func observed(ctx context.Context, inv *invocation.Invocation, h *hookCall, o hookOptions) (held bool, err error) {
	r, rewritten, err := h.observable(o)
	if err != nil {
		return false, err
	}
	c, err := inv.Agent()
	if err != nil {
		return false, err
	}
	defer c.Close()
	_, err = c.Observe(ctx, r, rewritten)
	if palyra.AsError(err).Reason == palyra.ReasonNotObserving {
		return true, nil
	}
	return false, err
}

// observable is the call as it would be judged if calls were held: a shell command as the one that 'palyra exec' would
// propose, where it would be rewritten. What has no such form is on record by the tool's own name.
func (h *hookCall) observable(o hookOptions) (r client.CallRequest, rewritten bool, err error) {
	if h.like == hook.LikeShell && !h.Line && o.mode == hook.Rewrite {
		if r, err = h.executed(o); err == nil {
			return r, true, nil
		}
	}
	if r, err = h.request(o); err == nil {
		return r, false, nil
	}
	r, err = h.requestFor(palyra.ToolName("hook."+strings.ToLower(h.Tool)), map[string]any{"tool": h.Tool, "input": h.Input})
	return r, false, err
}

// executed is the call that the rewritten command would propose.
func (h *hookCall) executed(o hookOptions) (client.CallRequest, error) {
	got, err := h.fields.texts("command")
	if err != nil {
		return client.CallRequest{}, err
	}
	args := proposal.Arguments{Command: o.shell, Args: []string{"-c", got["command"]}, Cwd: h.rel, Writes: h.goesOn()}
	r, err := h.requestFor(palyra.ToolProcessRun, args)
	r.Surface = palyra.SurfaceCLI
	return r, err
}

// ended is the session of an agent that says that it is over; false: the input is of another event.
func ended(agent hook.AgentProgram, raw []byte) (palyra.SessionID, bool) {
	var doc fields
	if json.Unmarshal(raw, &doc) != nil {
		return "", false
	}
	event, err1 := doc.text("hook_event_name")
	id, err2 := doc.text("session_id")
	if errors.Join(err1, err2) != nil || event != hook.SessionEnd || !sessionForm().MatchString(id) {
		return "", false
	}
	return palyra.SessionID(agent.Name + "-" + id), true
}

// sum returns the line about a session that is over: what would have become of its calls.
func sum(ctx context.Context, inv *invocation.Invocation, s palyra.SessionID) (string, error) {
	c, err := inv.Agent()
	if err != nil {
		return "", err
	}
	defer c.Close()
	var all, asked, refused int64
	f := client.CallFilter{Session: s, State: palyra.Observed, Limit: 500}
	for {
		page, err := c.Calls(ctx, f)
		if err != nil {
			return "", err
		}
		for i := range page.Calls {
			all++
			switch o := page.Calls[i].Outcome; {
			case o == nil || o.ReasonCode == "":
			case o.ReasonCode == palyra.ReasonApprovalNotAwaited:
				asked++
			default:
				refused++
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	if all == 0 {
		return "", nil
	}
	return fmt.Sprintf("Palyra observed %s of this session and held none: %d would have been asked about, %d refused (%s observe report)",
		screen.Count(all, "call"), asked, refused, inv.Own()), nil
}

// errSaid ends a hook that has said what there was to say.
var errSaid = exit.Error{Code: exitBlocked}

// sayEnd tells the person what an observed session did. Nothing can be blocked any more: Claude Code shows a person what
// the hook says with this code.
func sayEnd(ctx context.Context, inv *invocation.Invocation, s palyra.SessionID) error {
	line, err := sum(ctx, inv, s)
	if err != nil || line == "" {
		return err
	}
	fmt.Fprintln(inv.Stderr, line)
	return errSaid
}
