package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"palyra"
	"palyra/internal/mask"
)

// Bounds of what starts a run of a model.
const (
	maxPrompt    = 256 << 10
	maxSystem    = 64 << 10
	maxModelName = 200
)

// ModelsConfig wires Models.
type ModelsConfig struct {
	Sources   []Source
	Default   string // provider/model; empty: there is none
	Tools     Tools
	Artifacts Artifacts    // nil: long texts are not kept
	Mask      *mask.Masker // masks what models are told and say; nil: nothing is
	Log       *slog.Logger

	ContextBytes int   // of a question
	ResultBytes  int   // of tool output in one result
	MaxTurns     int64 // of a run
	AnswerTokens int64 // of an answer
}

// Models makes runs that models drive.
type Models struct {
	ModelsConfig
	rest time.Duration // before the second try
}

// NewModels returns Models.
func NewModels(c ModelsConfig) (*Models, error) {
	if c.Tools == nil || c.Log == nil || c.ContextBytes <= 0 || c.ResultBytes <= 0 || c.MaxTurns <= 0 || c.AnswerTokens <= 0 {
		return nil, errors.New("agent: models: incomplete config")
	}
	for _, s := range c.Sources {
		if s.Name == "" || s.Model == nil || s.Timeout <= 0 {
			return nil, errors.New("agent: models: incomplete source")
		}
	}
	return &Models{c, firstRest}, nil
}

// Providers returns the sources as the loop takes them, by name.
func (m *Models) Providers() map[string]Open {
	out := map[string]Open{}
	for i := range m.Sources {
		s := &m.Sources[i]
		out[s.Name] = func(input []byte) (Provider, error) { return m.open(s, input) }
	}
	return out
}

// Masked is the input of a run as it is kept: that of a model's has no values of secrets in it, which it would not be
// told either. What others make of theirs is not known here.
func (m *Models) Masked(provider string, input []byte) []byte {
	if _, ours := m.Providers()[provider]; ours {
		return m.Mask.JSON(input)
	}
	return input
}

// input is what starts a run of a model.
type input struct {
	Prompt   string `json:"prompt"`
	Model    string `json:"model,omitempty"`
	System   string `json:"system,omitempty"`
	MaxTurns int64  `json:"max_turns,omitempty"`
}

// parseInput reads it strictly.
func parseInput(raw []byte) (in input, err error) {
	bad := func(why string) error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the input of the run: %s", why).
			WithRemedy(`send a JSON object with "prompt", and if wanted "model", "system" and "max_turns"`)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	switch err := d.Decode(&in); {
	case !utf8.Valid(raw):
		return in, bad("it is not UTF-8")
	case err != nil:
		return in, bad("it is not an object of the form that a model's run takes")
	case !errors.Is(d.Decode(&struct{}{}), io.EOF):
		return in, bad("something follows the object")
	case strings.TrimSpace(in.Prompt) == "":
		return in, bad("the prompt is empty")
	case len(in.Prompt) > maxPrompt || len(in.System) > maxSystem:
		return in, palyra.Errorf(palyra.Exhausted, palyra.ReasonInputTooLarge, "a prompt has at most %d bytes, and a system prompt %d",
			maxPrompt, maxSystem).
			WithRemedy("put large texts into files of the workspace and name them in the prompt")
	case len(in.Model) > maxModelName || strings.ContainsFunc(in.Model, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return in, bad("the model's name")
	case in.MaxTurns < 0:
		return in, bad("max_turns is negative")
	}
	return in, nil
}

// Resolve names the provider of a run that names none.
func (m *Models) Resolve(provider string, raw []byte) (string, error) {
	if provider != "" {
		return provider, nil
	}
	if len(m.Sources) == 0 {
		return "", noModel("no provider of models is configured")
	}
	in, err := parseInput(raw)
	if err != nil {
		return "", err
	}
	prefix, _, two := strings.Cut(in.Model, "/")
	if s := m.source(prefix); s != nil {
		return s.Name, nil
	}
	s := m.defaultProvider()
	switch {
	case s == nil:
		return "", noModel("no default model is configured")
	case two && !slices.Contains(s.Allowed, in.Model): // a name misspelt must not send the prompt to somebody else
		return "", palyra.Errorf(palyra.NotFound, palyra.ReasonNoModel, "there is no provider of models called %q", palyra.Clip(prefix, 64)).
			WithRemedy("name one of %s; for a model of %s whose name has a slash give --provider %s, or list it in providers.%s.models", m.names(),
				s.Name, s.Name, s.Name)
	}
	return s.Name, nil
}

// defaultProvider is the provider of a model that names none; nil where there is no such.
func (m *Models) defaultProvider() *Source {
	prefix, _, _ := strings.Cut(m.Default, "/")
	if s := m.source(prefix); s != nil || len(m.Sources) != 1 {
		return s
	}
	return &m.Sources[0]
}

func (m *Models) names() string {
	out := make([]string, len(m.Sources))
	for i, s := range m.Sources {
		out[i] = s.Name
	}
	return strings.Join(out, ", ")
}

func (m *Models) source(name string) *Source {
	i := slices.IndexFunc(m.Sources, func(s Source) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &m.Sources[i]
}

// noModel says what to write where.
func noModel(why string) error {
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNoModel, "%s", why).
		WithRemedy(`put providers.NAME = { kind = "anthropic", key_binding = "BINDING" } and models.default = "NAME/model" into config.toml ` +
			"('palyra config path' says where it is), then restart the daemon; or give --model")
}

// choose picks the model of a run at a source.
func (m *Models) choose(s *Source, want string) (string, error) {
	model := strings.TrimPrefix(want, s.Name+"/")
	if model == "" {
		model, _ = strings.CutPrefix(m.Default, s.Name+"/")
		if model == m.Default {
			model = ""
		}
	}
	if model == "" && len(s.Allowed) > 0 {
		model = s.Allowed[0]
	}
	switch {
	case model == "":
		return "", palyra.Errorf(palyra.NotFound, palyra.ReasonNoModel, "no model of %s is named", s.Name).
			WithRemedy(`name one with --model, or set models.default = "%s/model" in the configuration`, s.Name)
	case len(s.Allowed) > 0 && !slices.Contains(s.Allowed, model):
		return "", palyra.Errorf(palyra.Denied, palyra.ReasonModelNotFound, "%q is not among the models that the operator allows of %s",
			model, s.Name).
			WithRemedy("use one of: %s (providers.%s.models)", palyra.Clip(strings.Join(s.Allowed, ", "), 500), s.Name)
	}
	return model, nil
}

// open understands the input of a run.
func (m *Models) open(s *Source, raw []byte) (Provider, error) {
	in, err := parseInput(raw)
	if err != nil {
		return nil, err
	}
	model, err := m.choose(s, in.Model)
	if err != nil {
		return nil, err
	}
	turns := m.MaxTurns
	if in.MaxTurns > 0 {
		turns = min(turns, in.MaxTurns)
	}
	return &modelRun{
		source: s, model: model, prompt: in.Prompt, system: systemPrompt(in.System), turns: min(turns, maxTurns),
		tools: m.Tools, told: teller{m.Artifacts, m.ResultBytes}, most: m.ContextBytes, tokens: m.AnswerTokens, rest: m.rest, log: m.Log,
		mask: m.Mask,
	}, nil
}

// Keys gives out the keys of providers. The caller destroys the key.
type Keys interface {
	// Key returns the key of a provider, by its name in the configuration. An empty one means that it needs none.
	Key(ctx context.Context, provider string) (palyra.Secret, error)
}
