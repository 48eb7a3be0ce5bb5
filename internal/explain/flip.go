package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/command"
	"palyra/internal/policy"
	"palyra/internal/rpc/wire"
)

// The kinds of flips.
const (
	flipPolicy    = "policy"
	flipAnswer    = "answer"
	flipArguments = "arguments"
	flipLimit     = "limit"
	flipHost      = "host"
	flipTier      = "tier"
	flipConfig    = "config"
	flipMachine   = "machine"
	flipAccess    = "access"
)

// flips are policy's own changes, after other arguments, which ask less of everybody.
func (p *Explainer) flips(ctx context.Context, c *palyra.Call, why policy.Explanation) []wire.Flip {
	var answers, others []wire.Flip
	for _, f := range why.Flips {
		one := wire.Flip(f)
		if one.Kind == flipAnswer {
			one.Change = p.question(ctx, c)
			answers = append(answers, one)
		} else {
			others = append(others, one)
		}
	}
	return slices.Concat(answers, p.tryArguments(ctx, c, "", why.Verdict), others)
}

// question is the command that answers a call's question, while it is open.
func (p *Explainer) question(ctx context.Context, c *palyra.Call) string {
	if c.Approval == "" {
		return ""
	}
	if a, err := p.Desk.Get(ctx, c.Approval); err != nil || !a.Pending() {
		return ""
	}
	return fmt.Sprintf("palyra approvals decide %s allow --digest %s", c.Approval, c.Digest)
}

// edit is another form of a call's arguments.
type edit struct {
	kind, text string
	apply      func(map[string]any) bool // false: it would be the same call
}

// tryArguments tries other arguments: each is planned and judged as if it were proposed, and those with a
// better answer are named.
func (p *Explainer) tryArguments(ctx context.Context, c *palyra.Call, reason palyra.Reason, was palyra.Effect) []wire.Flip {
	if c.Proposal.Tool != palyra.ToolProcessRun && c.Proposal.Tool != palyra.ToolProcessStart {
		return nil
	}
	return p.tryEdits(ctx, c, edits(c, reason), was)
}

// tryEdits is tryArguments of some edits.
func (p *Explainer) tryEdits(ctx context.Context, c *palyra.Call, edits []edit, was palyra.Effect) []wire.Flip {
	var out []wire.Flip
	for _, one := range edits {
		args, ok := object(c.Proposal.Arguments)
		if !ok || ctx.Err() != nil {
			return out
		}
		if !one.apply(args) {
			continue
		}
		if f, ok := p.tryCall(ctx, c, args); ok && f.Becomes > was {
			f.Kind, f.Text = one.kind, one.text
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b wire.Flip) int { return int(b.Becomes) - int(a.Becomes) })
	return out
}

// tryCall plans and judges a call with other arguments.
func (p *Explainer) tryCall(ctx context.Context, c *palyra.Call, args map[string]any) (wire.Flip, bool) {
	raw, err := canon.JSON(args)
	if err != nil {
		return wire.Flip{}, false
	}
	other := palyra.Call{Proposal: c.Proposal}
	other.Proposal.Arguments = raw
	if err := p.imagine(ctx, &other); err != nil {
		return wire.Flip{}, false
	}
	return wire.Flip{Change: string(raw), Becomes: p.Here.Policy.Judge(ctx, palyra.RequestOf(&other)).Effect, Verified: true}, true
}

func object(raw json.RawMessage) (map[string]any, bool) {
	var args map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return args, dec.Decode(&args) == nil && args != nil
}

// edits are the changes that are tried, a fixed few. A weaker tier is one of them
// only where the better one cannot be had.
func edits(c *palyra.Call, reason palyra.Reason) []edit {
	out := []edit{
		{flipTier, "run it in tier C (--tier c)", func(m map[string]any) bool {
			if m["tier"] == "c" || c.Plan.Tier == palyra.TierC {
				return false
			}
			m["tier"] = "c"
			return true
		}},
		editUnshelled(),
		editInside(c.Plan),
		editWithout(flipHost, "egress", "leave out --egress"),
		editWithout(flipArguments, "stdin_live", "give it nothing to read while it runs"),
		editWithout(flipArguments, "agent_socket", "do not run it as an agent"),
		editWithout(flipArguments, "live", "leave out --live"),
		editPublish(),
		editWithout(flipArguments, "bindings", "use no secret, or another one (--secret)"),
		editWithout(flipLimit, "require_limits", "leave out --require-limits"),
		editWithout(flipLimit, "limits", "leave out its own limits"),
		editWithout(flipLimit, "timeout_ms", "leave out its own time limit"),
		editWithout(flipArguments, "env", "leave out --env"),
		{flipArguments, "run it without a profile (--profile none)", func(m map[string]any) bool {
			if !c.Plan.Asks && !c.Plan.UnixSockets && m["profile"] == nil {
				return false
			}
			m["profile"] = palyra.NoProfile
			return true
		}},
	}
	if reason == palyra.ReasonTierUnavailable {
		out = append(out, edit{flipTier, "run it in tier B (--tier b), which confines less", func(m map[string]any) bool {
			m["tier"] = "b"
			return true
		}})
	}
	return out
}

// editWithout leaves one argument out.
func editWithout(kind, name, text string) edit {
	return edit{kind, text, func(m map[string]any) bool {
		if _, there := m[name]; !there {
			return false
		}
		delete(m, name)
		return true
	}}
}

// editPublish leaves out the ports.
func editPublish() edit {
	return editWithout(flipArguments, "publish", "publish no port, or another one (--publish)")
}

// editInside leaves out the words that lead out of the workspace.
func editInside(p palyra.Plan) edit {
	if len(p.Argv) == 0 {
		return edit{apply: func(map[string]any) bool { return false }}
	}
	outside := command.Of(p).Outside
	return edit{flipArguments, "leave out what lies outside the workspace: " + fewNames(outside), func(m map[string]any) bool {
		args, _ := m["args"].([]any)
		var left []any
		for _, a := range args {
			word, _ := a.(string)
			if !slices.ContainsFunc(outside, func(path string) bool { return path != "" && strings.Contains(word, path) }) {
				left = append(left, a)
			}
		}
		if len(left) == len(args) || !slices.ContainsFunc(left, operand) { // a program with nothing to work on is no alternative
			return false
		}
		m["args"] = append([]any{}, left...)
		return true
	}}
}

// operand reports whether a word is something that a program works on.
func operand(word any) bool {
	s, _ := word.(string)
	return s != "" && s[0] != '-'
}

// editUnshelled names the program itself where a shell would only start it: no
// character of the line means anything to a shell.
func editUnshelled() edit {
	return edit{flipArguments, "name the program itself instead of a shell line", func(m map[string]any) bool {
		line, ok := shellLine(m)
		if !ok || strings.Trim(line, plainChars+" ") != "" {
			return false
		}
		words := strings.Fields(line)
		if len(words) == 0 || strings.Contains(words[0], "=") {
			return false
		}
		delete(m, "script")
		m["command"] = words[0]
		args := make([]any, 0, len(words))
		for _, w := range words[1:] {
			args = append(args, w)
		}
		m["args"] = args
		return true
	}}
}

const plainChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%"

// shellLine is the line that a call gives to a shell.
func shellLine(m map[string]any) (string, bool) {
	if line, ok := m["script"].(string); ok {
		return strings.TrimSpace(line), !strings.Contains(strings.TrimSpace(line), "\n")
	}
	args, _ := m["args"].([]any)
	name, _ := m["command"].(string)
	if !slices.Contains([]string{"sh", "bash", "dash"}, name[strings.LastIndexByte(name, '/')+1:]) || len(args) != 2 || args[0] != "-c" {
		return "", false
	}
	line, ok := args[1].(string)
	return strings.TrimSpace(line), ok
}

// fewNames lists a few names.
func fewNames(names []string) string {
	const most = 4
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
