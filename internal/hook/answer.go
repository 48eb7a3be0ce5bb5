package hook

import "encoding/json"

// The answers that a hook gives.
const (
	Allow = "allow"
	Deny  = "deny"
	Defer = "defer" // the run parks; Claude Code's, in a run without a window
)

// Answer is what a hook says. Without a decision the agent's own rules hold.
type Answer struct {
	Decision string
	Reason   string                     // for the model
	Message  string                     // for the person at the agent's window
	Input    map[string]json.RawMessage // the tool's input instead of what it was given
}

// claudeAnswer is the answer in Claude Code's words.
type claudeAnswer struct {
	Specific claudeDecision `json:"hookSpecificOutput"`
	Message  string         `json:"systemMessage,omitempty"`
}

type claudeDecision struct {
	Event    string `json:"hookEventName"`
	Decision string `json:"permissionDecision"`
	Reason   string `json:"permissionDecisionReason"`
	Input    Object `json:"updatedInput,omitempty"`
}

// copilotAnswer is the answer in the words of Copilot's command line and, beside them, in those of VS Code: both read
// the same file of hooks.
type copilotAnswer struct {
	Decision string         `json:"permissionDecision"`
	Reason   string         `json:"permissionDecisionReason"`
	Input    Object         `json:"modifiedArgs,omitempty"`
	Specific claudeDecision `json:"hookSpecificOutput"`
	Message  string         `json:"systemMessage,omitempty"`
}

// geminiAnswer is the answer in Gemini's words.
type geminiAnswer struct {
	Decision string          `json:"decision"`
	Reason   string          `json:"reason,omitempty"`
	Message  string          `json:"systemMessage,omitempty"`
	Specific *geminiSpecific `json:"hookSpecificOutput,omitempty"`
}

type geminiSpecific struct {
	Event string `json:"hookEventName"`
	Input Object `json:"tool_input"`
}

// cursorAnswer is the answer in Cursor's words.
type cursorAnswer struct {
	Decision string `json:"permission"`
	User     string `json:"user_message,omitempty"`
	Agent    string `json:"agent_message,omitempty"`
	Input    Object `json:"updated_input,omitempty"`
}

// Words is an answer as the agent reads it.
func (a AgentProgram) Words(w Answer) any {
	nothing := w.Decision == "" || a.SilentYes && w.Decision == Allow && w.Input == nil
	if nothing && a.Dialect == CursorWords {
		return cursorAnswer{Decision: Allow} // it takes no answer for a failure
	}
	if nothing {
		return struct{}{}
	}
	claude := claudeDecision{Event: "PreToolUse", Decision: w.Decision, Reason: w.Reason, Input: w.Input}
	switch a.Dialect {
	case GeminiWords:
		g := geminiAnswer{Decision: w.Decision, Message: w.Message}
		if w.Decision != Allow {
			g.Reason = w.Reason
		}
		if w.Input != nil {
			g.Specific = &geminiSpecific{a.Event, w.Input}
		}
		return g
	case CopilotWords:
		return copilotAnswer{w.Decision, w.Reason, w.Input, claude, w.Message}
	case CursorWords:
		return cursorAnswer{w.Decision, w.Message, w.Reason, w.Input}
	}
	return claudeAnswer{claude, w.Message}
}
