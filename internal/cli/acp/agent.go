package acp

import (
	"context"
	"encoding/json"

	sdk "github.com/coder/acp-go-sdk"
)

// agentNotes are the notifications that an agent sends: news, which are shown.
func agentNotes(method string) bool { return method == sdk.ClientMethodSessionUpdate }

// fromAgent answers what the agent asks of the editor. Nothing of it goes to the editor but views.
func (p *Proxy) fromAgent(ctx context.Context, method string, params json.RawMessage) (any, error) {
	switch method {
	case sdk.ClientMethodFsReadTextFile:
		return asked(ctx, params, p.readFile)
	case sdk.ClientMethodFsWriteTextFile:
		return asked(ctx, params, p.writeFile)
	case sdk.ClientMethodSessionRequestPermission:
		return asked(ctx, params, p.permission)
	case sdk.ClientMethodTerminalCreate:
		return asked(ctx, params, p.createTerminal)
	case sdk.ClientMethodTerminalOutput:
		return asked(ctx, params, p.terminalOutput)
	case sdk.ClientMethodTerminalWaitForExit:
		return asked(ctx, params, p.waitForTerminal)
	case sdk.ClientMethodTerminalKill:
		return asked(ctx, params, p.killTerminal)
	case sdk.ClientMethodTerminalRelease:
		return asked(ctx, params, p.releaseTerminal)
	}
	const only = "palyra: refused: nothing but files, terminals and permissions may be asked of the editor"
	return nil, &sdk.RequestError{Code: codeMethod, Message: only}
}

// asked reads the parameters of a request and answers it.
func asked[P, R any](ctx context.Context, params json.RawMessage, answer func(context.Context, P) (R, error)) (any, error) {
	var p P
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, badParams("the parameters cannot be read")
	}
	return answer(ctx, p)
}

// agentTells passes news on, of sessions that the editor knows. A terminal in it is one of ours: the editor gets its text.
func (p *Proxy) agentTells(_ context.Context, method string, params json.RawMessage) {
	var m struct {
		ID     sdk.SessionId `json:"sessionId"`
		Update struct {
			Content json.RawMessage `json:"content"`
		} `json:"update"`
	}
	if json.Unmarshal(params, &m) != nil || !p.sessions.shows(m.ID) {
		return
	}
	if shown, changed := p.withoutTerminals(m.ID, params, m.Update.Content); changed {
		params = shown
	}
	p.editor.tell(method, params)
}

// withoutTerminals puts the text of terminals into the places where news embed them.
func (p *Proxy) withoutTerminals(id sdk.SessionId, params, content json.RawMessage) (json.RawMessage, bool) {
	var items []json.RawMessage
	if json.Unmarshal(content, &items) != nil {
		return nil, false
	}
	changed := false
	for i, raw := range items {
		var item struct {
			Type     string `json:"type"`
			Terminal string `json:"terminalId"`
		}
		if json.Unmarshal(raw, &item) != nil || item.Type != "terminal" {
			continue
		}
		changed = true
		items[i] = textItem(p.terminalText(id, item.Terminal))
	}
	if !changed {
		return nil, false
	}
	var whole, update map[string]json.RawMessage
	if json.Unmarshal(params, &whole) != nil || json.Unmarshal(whole["update"], &update) != nil {
		return nil, false
	}
	update["content"], _ = json.Marshal(items)
	whole["update"], _ = json.Marshal(update)
	out, err := json.Marshal(whole)
	return out, err == nil
}

func textItem(text string) json.RawMessage {
	raw, _ := json.Marshal(map[string]any{"type": "content", "content": map[string]string{"type": "text", "text": text}})
	return raw
}
