package acp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"
)

// editorNotes are the notifications that an editor sends.
func editorNotes(method string) bool {
	return method == sdk.AgentMethodSessionCancel || strings.HasPrefix(method, "document/") ||
		method == sdk.AgentMethodNesAccept || method == sdk.AgentMethodNesReject || method == noteInitialized
}

const noteInitialized = "initialized" // some send it, as another protocol has it

// editorTells passes notifications on. A cancel withdraws what waits before the agent hears of it.
func (p *Proxy) editorTells(_ context.Context, method string, params json.RawMessage) {
	if method == sdk.AgentMethodSessionCancel {
		var c sdk.CancelNotification
		if json.Unmarshal(params, &c) != nil {
			return
		}
		if n, err := p.sessions.find(c.SessionId); err == nil {
			n.interrupt()
		}
	}
	p.agent.tell(method, params)
}

// fromEditor passes requests on: the editor is the person's own. What opens sessions and sets modes is looked at.
func (p *Proxy) fromEditor(ctx context.Context, method string, params json.RawMessage) (any, error) {
	switch method {
	case sdk.AgentMethodInitialize:
		return p.initialize(ctx, params)
	case sdk.AgentMethodSessionNew, sdk.AgentMethodSessionFork:
		return p.newSession(ctx, method, params)
	case sdk.AgentMethodSessionLoad, sdk.AgentMethodSessionResume:
		return p.oldSession(ctx, method, params)
	case sdk.AgentMethodSessionClose:
		return p.closeSession(ctx, params)
	case sdk.AgentMethodSessionSetMode, sdk.AgentMethodSessionSetConfigOption:
		if err := p.checkMode(params); err != nil {
			return nil, err
		}
	}
	return p.agent.ask(ctx, method, params)
}

// ours are the abilities of the editor as the agent hears of them: those that go through the gate. Others, among them
// to have the editor start programs for a log-in, are not the agent's to use.
const ours = `{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true}`

// initialize tells the agent what this program can do in the place of the editor.
func (p *Proxy) initialize(ctx context.Context, params json.RawMessage) (any, error) {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(params, &fields) != nil {
		return nil, badParams("the parameters of initialize cannot be read")
	}
	fields["clientCapabilities"] = json.RawMessage(ours)
	delete(fields, "_meta")
	raw, err := p.agent.ask(ctx, sdk.AgentMethodInitialize, fields)
	if err != nil {
		return nil, err
	}
	answer := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &answer) != nil {
		return nil, refusal("the agent's answer to initialize cannot be read")
	}
	delete(answer, "_meta")
	if answer["authMethods"], err = plainLogins(answer["authMethods"]); err != nil {
		return nil, err
	}
	return answer, nil
}

// plainLogins leaves out the ways of logging in that have the editor start a program of the agent's choice.
func plainLogins(raw json.RawMessage) (json.RawMessage, error) {
	var all []map[string]json.RawMessage
	if len(raw) > 0 && json.Unmarshal(raw, &all) != nil {
		return nil, refusal("the agent's ways to log in cannot be read")
	}
	kept := []map[string]json.RawMessage{}
	for _, m := range all {
		if kind := string(m["type"]); kind != "" && kind != `"agent"` && kind != `"env_var"` {
			continue
		}
		delete(m, "_meta")
		kept = append(kept, m)
	}
	return json.Marshal(kept)
}

// newSession opens a session that the agent names.
func (p *Proxy) newSession(ctx context.Context, method string, params json.RawMessage) (any, error) {
	var r sdk.NewSessionRequest
	if json.Unmarshal(params, &struct {
		Cwd  *string   `json:"cwd"`
		More *[]string `json:"additionalDirectories"`
	}{&r.Cwd, &r.AdditionalDirectories}) != nil {
		return nil, badParams("the parameters of %s cannot be read", method)
	}
	roots, err := rootsOf(r.Cwd, r.AdditionalDirectories)
	if err != nil {
		return nil, err
	}
	p.sessions.begin()
	defer p.sessions.end()
	raw, err := p.agent.ask(ctx, method, params)
	if err != nil {
		return nil, err
	}
	var made opened
	if json.Unmarshal(raw, &made) != nil {
		return nil, refusal("the agent's answer to %s cannot be read", method)
	}
	if err := p.sessions.open(made.ID, roots, true); err != nil {
		return nil, err
	}
	p.warnOfMode(made)
	return raw, nil
}

// opened is what is read of the answer to a request that opens a session.
type opened struct {
	ID    sdk.SessionId `json:"sessionId"`
	Modes struct {
		Current string `json:"currentModeId"`
	} `json:"modes"`
}

// oldSession opens a session that the editor names.
func (p *Proxy) oldSession(ctx context.Context, method string, params json.RawMessage) (any, error) {
	var r struct {
		ID   sdk.SessionId `json:"sessionId"`
		Cwd  string        `json:"cwd"`
		More []string      `json:"additionalDirectories"`
	}
	if json.Unmarshal(params, &r) != nil {
		return nil, badParams("the parameters of %s cannot be read", method)
	}
	roots, err := rootsOf(r.Cwd, r.More)
	if err == nil {
		err = p.sessions.open(r.ID, roots, false)
	}
	if err != nil {
		return nil, err
	}
	raw, err := p.agent.ask(ctx, method, params)
	if err != nil {
		p.sessions.drop(r.ID)
		return nil, err
	}
	var made opened
	if json.Unmarshal(raw, &made) == nil {
		made.ID = r.ID
		p.warnOfMode(made)
	}
	return raw, nil
}

func (p *Proxy) closeSession(ctx context.Context, params json.RawMessage) (any, error) {
	var r struct {
		ID sdk.SessionId `json:"sessionId"`
	}
	if json.Unmarshal(params, &r) != nil {
		return nil, badParams("the session cannot be read")
	}
	p.sessions.drop(r.ID)
	return p.agent.ask(ctx, sdk.AgentMethodSessionClose, params)
}

// unasking are the modes of known agents in which they ask nobody before they change files or run commands:
// Claude Code's (2.1), Codex's (0.166), Gemini's (0.61).
var unasking = []string{"bypassPermissions", "acceptEdits", "full-access", "yolo", "autoEdit", "auto_edit"}

// checkMode refuses modes in which an agent would ask nobody, and so pass by the gate.
func (p *Proxy) checkMode(params json.RawMessage) error {
	var r struct {
		Mode  string `json:"modeId"`
		Value any    `json:"value"`
	}
	if json.Unmarshal(params, &r) != nil {
		return badParams("the mode cannot be read")
	}
	mode, _ := r.Value.(string)
	if r.Mode != "" {
		mode = r.Mode
	}
	if p.AnyMode || !slices.Contains(unasking, mode) {
		return nil
	}
	return refusal("in its mode %q the agent asks nobody, and its own tools pass by the gate%s", mode,
		remedyText("choose another mode, or start 'palyra acp' with --any-mode, best with the agent in the sandbox"))
}

// warnOfMode says that an agent is in a mode in which it asks nobody.
func (p *Proxy) warnOfMode(o opened) {
	n, err := p.sessions.find(o.ID)
	if err != nil || !slices.Contains(unasking, o.Modes.Current) {
		return
	}
	p.Log.Warn("the agent is in a mode in which it asks nobody: its own tools pass by the gate", "mode", o.Modes.Current)
	p.say(n, "the agent is in its mode "+o.Modes.Current+", in which it asks nobody: its own tools pass by the gate")
}
