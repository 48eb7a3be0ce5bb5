package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/mask"
	"palyra/internal/toolname"
)

// modelRun is one run that a model drives. A model does not repeat a turn: each turn is kept as it was given before
// anything is done because of it, and a drive after a restart asks the model only for the turns that were not kept.
type modelRun struct {
	source         *Source
	model          string
	prompt, system string
	turns          int64
	tools          Tools
	told           teller
	most           int // bytes of a question
	tokens         int64
	rest           time.Duration
	log            *slog.Logger
	mask           *mask.Masker

	id    palyra.RunID
	talk  []Exchange // of earlier runs of the session, then of this one
	first int        // where this one begins
}

// Title implements Titled.
func (m *modelRun) Title() string { return titleOf(m.prompt) }

// Listens implements Listener.
func (m *modelRun) Listens() bool { return true }

// ModelName implements Modelled.
func (m *modelRun) ModelName() string { return m.model }

// keptTurn is a turn as it stands on record.
type keptTurn struct {
	Version int `json:"v"`
	Exchange
	Model string        `json:"model"`
	Fail  *palyra.Error `json:"fail,omitempty"` // how the run ends with this turn
}

const keptVersion = 1

// Next implements Provider.
func (m *modelRun) Next(ctx context.Context, t Transcript) (Turn, error) {
	if t.memory == nil {
		return Turn{}, errors.New("agent: a model needs a run that remembers")
	}
	m.id = t.Run.ID
	if t.Turn == 1 {
		if err := m.remember(ctx, t.memory); err != nil {
			return Turn{}, err
		}
	}
	raw, err := t.memory.Kept(ctx, t.Turn)
	if err != nil {
		return Turn{}, err
	}
	if raw == nil {
		return m.speak(ctx, t)
	}
	k, err := readTurn(raw)
	if err != nil {
		return Turn{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonInterrupted, "turn %d was kept in a form that is not understood", t.Turn).
			WithCause(err)
	}
	return m.resumeTurn(ctx, t, k)
}

// remember reads the conversation of the session so far.
func (m *modelRun) remember(ctx context.Context, h memory) error {
	earlier, err := h.Earlier(ctx, m.most)
	if err != nil {
		return err
	}
	for _, e := range earlier {
		if k, err := readTurn(e.Body); err == nil {
			m.talk = append(m.talk, k.Exchange)
		}
	}
	m.first = len(m.talk)
	return nil
}

// speak asks the model for a turn and keeps it.
func (m *modelRun) speak(ctx context.Context, t Transcript) (Turn, error) {
	if t.Turn > m.turns {
		return Turn{}, palyra.Errorf(palyra.Exhausted, palyra.ReasonBudgetSpent, "the run took its %d turns and was not done", m.turns).
			WithRemedy("say \"go on\" in another run of this session, or allow more with --max-turns, at most models.max_turns")
	}
	if err := t.memory.Anew(ctx, t.Turn); err != nil { // an earlier daemon died in the middle of it
		return Turn{}, err
	}
	names, offers := m.offers()
	heard := m.hear(ctx, t)
	talk := sound(fit(append(m.talk[:len(m.talk):len(m.talk)], Exchange{Heard: heard}), m.first, m.most))
	said := m.maskedVoice(ctx, t)
	v := &voice{now: time.Now, say: func(text string) error { _, err := said.Write([]byte(text)); return err }}
	a, err := m.ask(ctx, Question{Model: m.model, System: m.system, Tools: offers, Talk: talk, MaxTokens: m.tokens}, v, func() error {
		v.buf, said = v.buf[:0], m.maskedVoice(ctx, t)
		return t.memory.Anew(ctx, t.Turn)
	})
	if err := errors.Join(err, v.flush(), said.Flush()); err != nil { // all that was said is on the tape before the turn is kept
		return Turn{}, err
	}
	k := keptTurn{
		Version: keptVersion, Exchange: Exchange{Heard: heard, Said: m.outputOf(a, t.Turn, names)}, Model: m.model,
		Fail: m.failure(a),
	}
	raw := m.mask.JSON([]byte(encode(k)))   // also of what it wants to call: the values are not its to know
	if k, err = readTurn(raw); err != nil { // exactly the recorded turn is carried out: a call is recognised by it
		return Turn{}, fmt.Errorf("agent: keep turn: %w", err)
	}
	if err := t.memory.Keep(ctx, t.Turn, raw, tokensOf(a)); err != nil {
		return Turn{}, err
	}
	return m.resumeTurn(ctx, t, k)
}

// maskedVoice puts what a model says in a turn onto the tape, without values of secrets.
func (m *modelRun) maskedVoice(ctx context.Context, t Transcript) *mask.Stream {
	return m.mask.Stream(tapeWriter(func(b []byte) error { return t.memory.Text(ctx, t.Turn, string(b), false) }))
}

type tapeWriter func([]byte) error

// Write implements io.Writer.
func (w tapeWriter) Write(b []byte) (int, error) { return len(b), w(b) }

// readTurn reads a turn that was kept.
func readTurn(raw []byte) (k keptTurn, err error) {
	if err = json.Unmarshal(raw, &k); err == nil && k.Version != keptVersion {
		err = fmt.Errorf("agent: a turn of version %d", k.Version)
	}
	return k, err
}

// resumeTurn makes a turn that is on record the run's next.
func (m *modelRun) resumeTurn(ctx context.Context, t Transcript, k keptTurn) (Turn, error) {
	m.talk = append(m.talk, k.Exchange)
	if k.Said.Text != "" { // its pieces are on the tape; that it was the last is not, perhaps
		if err := t.memory.Text(ctx, t.Turn, "", true); err != nil {
			return Turn{}, err
		}
	}
	turn := Turn{Text: k.Said.Text, Done: len(k.Said.Calls) == 0, said: true}
	if k.Fail != nil {
		turn.fail = k.Fail
	}
	for _, w := range k.Said.Calls {
		turn.Calls = append(turn.Calls, ToolCall{Tool: palyra.ToolName(w.Tool), Arguments: w.Arguments, Bad: w.Bad})
	}
	return turn, nil
}

// offers lists the tools as models see them.
func (m *modelRun) offers() (toolname.Map, []Offer) {
	list := slices.DeleteFunc(slices.Clone(m.tools.List()), func(t palyra.Tool) bool { return !t.ForAgents() })
	names := make([]string, len(list))
	for i, tool := range list {
		names[i] = string(tool.Name)
	}
	table := toolname.Table(names)
	offers := make([]Offer, 0, len(list))
	for _, tool := range list {
		if code, ok := table.Encode(string(tool.Name)); ok {
			offers = append(offers, Offer{Name: code, Description: tool.Description, Schema: tool.InputSchema})
		}
	}
	return table, offers
}

// hear returns the messages for the model before a turn.
func (m *modelRun) hear(ctx context.Context, t Transcript) Heard {
	var h Heard
	if t.Turn == 1 {
		h.Texts = append(h.Texts, m.prompt)
	} else if n := len(t.Past); n > 0 {
		for i, made := range t.Past[n-1].Calls {
			text, failed := m.told.tell(ctx, made.Outcome)
			h.Results = append(h.Results, Result{ID: wishID(m.id, t.Turn-1, i+1), Text: text, Failed: failed})
		}
	}
	h.Texts = append(h.Texts, t.Inputs...)
	return h
}

// outputOf puts an answer into our words. An unfinished answer asks for no calls.
func (m *modelRun) outputOf(a Answer, turn int64, names toolname.Map) Said {
	s := Said{Text: a.Text}
	if a.Stop != StopDone {
		return s
	}
	for i, c := range a.Calls {
		w := Wish{ID: wishID(m.id, turn, i+1), Name: c.Name, Arguments: json.RawMessage("{}")}
		args := strings.TrimSpace(c.Arguments)
		tool, known := names.Decode(c.Name)
		w.Tool = tool
		switch {
		case !known:
			w.Name, w.Bad = toolname.Encode(c.Name), "there is no tool of this name; use one of those that were offered"
		case args == "":
		case !strings.HasPrefix(args, "{") || !json.Valid([]byte(args)):
			w.Bad = "the arguments are not a JSON object; send one JSON object that fits the tool's schema"
		default:
			w.Arguments = json.RawMessage(args)
		}
		s.Calls = append(s.Calls, w)
	}
	return s
}

// failure is how a run ends when the model did not finish.
func (m *modelRun) failure(a Answer) *palyra.Error {
	switch a.Stop {
	case StopLength:
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonModelFailed, "the answer was cut off: it was as long as an answer may be").
			WithRemedy("say \"go on\" in another run of this session, or raise models.answer_tokens")
	case StopDeclined:
		return palyra.Errorf(palyra.Denied, palyra.ReasonModelRefused, "%s declined to answer", m.source.Name).
			WithRemedy("put it another way, or use another model")
	}
	return nil
}
