package execute

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/config"
	"palyra/internal/show"
)

// The limits of a daemon.
const (
	maxPrompt = 256 << 10
	maxSystem = 64 << 10
)

// modelOptions holds the options of run about models.
type modelOptions struct {
	model, provider, system string
	maxTurns                int64
}

func (o modelOptions) empty() bool { return o == modelOptions{} }

// modelInput is the input of a run with a model, as the daemon reads it.
type modelInput struct {
	Prompt   string `json:"prompt"`
	Model    string `json:"model,omitempty"`
	System   string `json:"system,omitempty"`
	MaxTurns int64  `json:"max_turns,omitempty"`
}

// runInput returns the input of a run and its provider: a script, or a model with a prompt.
func runInput(inv *invocation.Invocation, o runOptions, prompt []string) (provider, input string, err error) {
	switch {
	case o.script != "" && len(prompt) > 0:
		return "", "", exit.Usagef("a prompt and --script exclude each other")
	case o.script != "" && !o.modelOptions.empty():
		return "", "", exit.Usagef("--model, --provider, --system and --max-turns go with a prompt, not with --script")
	case o.script != "":
		source := "@" + o.script
		if o.script == "-" {
			source = "-"
		}
		raw, err := inv.ReadInput(source, maxScript)
		return "scripted", string(raw), err
	case len(prompt) == 0:
		return "", "", exit.Usagef("say what to do: palyra run \"PROMPT\", - to read it from stdin, or --script FILE with the turns to take")
	case o.maxTurns < 0:
		return "", "", exit.Usagef("--max-turns must not be negative")
	}
	input, err = readModelInput(inv, o.modelOptions, prompt[0])
	return o.provider, input, err
}

// readModelInput reads the prompt and the system text for a model.
func readModelInput(inv *invocation.Invocation, o modelOptions, prompt string) (string, error) {
	in := modelInput{Prompt: prompt, Model: o.model, MaxTurns: o.maxTurns}
	if prompt == "-" {
		raw, err := inv.ReadInput("-", maxPrompt)
		if err != nil {
			return "", err
		}
		in.Prompt = string(raw)
	}
	if o.system != "" {
		raw, err := inv.ReadInput("@"+o.system, maxSystem)
		if err != nil {
			return "", err
		}
		in.System = string(raw)
	}
	switch {
	case strings.TrimSpace(in.Prompt) == "":
		return "", exit.Usagef("the prompt is empty")
	case !utf8.ValidString(in.Prompt + in.System):
		return "", exit.Failedf(palyra.ReasonMalformedInput, "the prompt is not text in UTF-8")
	}
	raw, err := json.Marshal(in)
	return string(raw), err
}

// noModel adds to the error that no model is configured what to write where.
func noModel(inv *invocation.Invocation, err error) error {
	if err == nil || palyra.AsError(err).Reason != palyra.ReasonNoModel || inv.JSON {
		return err
	}
	where := "config.toml"
	if c, cerr := inv.Config(); cerr == nil {
		where = c.Paths.Config
	}
	inv.Say("palyra: to use a model, put its key into the vault, this into %s, and start the daemon again (palyra down, palyra up):\n%s",
		show.Line(where), modelLines)
	return err
}

// modelLines are example lines: commands, and a configuration with models.
const modelLines = `
    palyra vault put anthropic-key
    palyra vault bind anthropic --secret anthropic-key --host api.anthropic.com --provider

    [providers.anthropic]
    kind = "anthropic"
    key_binding = "anthropic"

    [models]
    default = "anthropic/claude-sonnet-4-5"

  or, for a model on this machine (Ollama), which needs no key:

    [providers.ollama]
    kind = "openai"
    base_url = "http://127.0.0.1:11434/v1"

    [models]
    default = "ollama/qwen3"
`

// providerNames lists the configured providers of models.
func providerNames(inv *invocation.Invocation) []string {
	c, err := inv.Config()
	if err != nil {
		return nil
	}
	return providersOf(c)
}

func providersOf(c *config.Config) []string {
	var out []string
	for _, o := range c.Origins() {
		rest, ok := strings.CutPrefix(o.Key, "providers.")
		if name, field, _ := strings.Cut(rest, "."); ok && field == "kind" {
			out = append(out, name)
		}
	}
	return out
}

// tokens is how many tokens a model read and wrote; "" without a model.
func tokens(t palyra.Tokens) string {
	if t == (palyra.Tokens{}) {
		return ""
	}
	return screen.Count(t.InputTokens, "token") + " in, " + screen.Count(t.OutputTokens, "token") + " out"
}
