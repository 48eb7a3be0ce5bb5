package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
	"palyra/internal/run"
)

// reply is what a fake model does when it is asked.
type reply struct {
	say    []string
	answer Answer
	err    error
	wait   bool // until the context ends
}

// fakeModel gives its replies in order and keeps what it was asked.
type fakeModel struct {
	mu      sync.Mutex
	replies []reply
	asked   []Question
}

func (m *fakeModel) Ask(ctx context.Context, q Question, say func(string) error) (Answer, error) {
	m.mu.Lock()
	m.asked = append(m.asked, q)
	if len(m.replies) == 0 {
		m.mu.Unlock()
		return Answer{}, &Fault{Status: 400, Message: "asked too often"}
	}
	r := m.replies[0]
	m.replies = m.replies[1:]
	m.mu.Unlock()
	for _, s := range r.say {
		if err := say(s); err != nil {
			return Answer{}, err
		}
	}
	if r.wait {
		<-ctx.Done()
		return Answer{}, ctx.Err()
	}
	return r.answer, r.err
}

// models are runs of a fake model.
func models(t *testing.T, m *fakeModel, change ...func(*ModelsConfig)) *Models {
	t.Helper()
	c := ModelsConfig{
		Sources: []Source{{Name: "fake", Model: m, BaseURL: "http://127.0.0.1:1/v1", KeyFile: "/k/fake.key", Timeout: time.Minute}},
		Default: "fake/small",
		Tools:   readers{}, Log: slog.New(slog.DiscardHandler), ContextBytes: 20_000, ResultBytes: 2000, MaxTurns: 5, AnswerTokens: 100,
	}
	for _, f := range change {
		f(&c)
	}
	all, err := NewModels(c)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (m *Models) start(t *testing.T, input string) Provider {
	t.Helper()
	p, err := m.Providers()["fake"]([]byte(input))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func calling(names ...string) Answer {
	a := Answer{Stop: StopDone, Tokens: palyra.Tokens{InputTokens: 10, OutputTokens: 2}}
	for _, n := range names {
		a.Calls = append(a.Calls, Asked{Name: n, Arguments: `{"n":1}`})
	}
	return a
}

func saying(text string) reply {
	return reply{say: []string{text}, answer: Answer{Text: text, Stop: StopDone, Tokens: palyra.Tokens{InputTokens: 10, OutputTokens: 2}}}
}

// A model's turn is said, kept and only then acted on; its results come back, and
// the run says what it cost.
func TestAModelTakesItsTurns(t *testing.T) {
	first := reply{say: []string{"let me"}, answer: calling("write_it", "read_it")}
	first.answer.Text = "let me"
	m := &fakeModel{replies: []reply{first, saying("done")}}
	h := &fakeRun{
		t: t, parallel: 1, inputs: map[int64][]string{2: {"and hurry"}},
		call: func(_ context.Context, _, _ int64, c run.ToolCall) (palyra.Outcome, error) {
			return palyra.Outcome{Outcome: palyra.OutcomeFinished, Stdout: string("out of " + c.Tool)}, nil
		},
	}
	p := models(t, m).start(t, `{"prompt":"Do it\nplease"}`)
	if err := loop().drive(t.Context(), h, p); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"anew 1", "say 1 let me false", "keep 1", "say 1  true", "call 1/1 write.it", "call 1/2 read.it", "anew 2",
		"say 2 done false", "keep 2", "say 2  true",
	}
	if !slices.Equal(h.notes, want) {
		t.Errorf("%q, want %q", h.notes, want)
	}
	if h.cost != (palyra.Tokens{InputTokens: 20, OutputTokens: 4}) || p.(Titled).Title() != "Do it" || p.(Modelled).ModelName() != "small" {
		t.Errorf("%+v", h.cost)
	}
	q := m.asked[1]
	if q.Model != "small" || len(q.Tools) != 2 || q.Tools[0].Name != "read_it" || len(q.Talk) != 2 ||
		q.Talk[0].Heard.Texts[0] != "Do it\nplease" {
		t.Fatalf("%+v", q)
	}
	heard := q.Talk[1].Heard
	if len(heard.Results) != 2 || heard.Results[0].ID != q.Talk[0].Said.Calls[0].ID ||
		!strings.Contains(heard.Results[0].Text, `"untrusted":{"stdout":"out of write.it"}`) || heard.Texts[0] != "and hurry" {
		t.Errorf("%+v", heard)
	}
	if !strings.Contains(q.System, "untrusted") {
		t.Errorf("%s", q.System)
	}
}

// Turns on record are not asked for again, whatever became of the daemon.
func TestKeptTurnsAreNotAskedForAgain(t *testing.T) {
	h := &fakeRun{t: t, parallel: 1}
	m := &fakeModel{replies: []reply{{answer: calling("read_it")}, {answer: calling("write_it")}}}
	err := loop().drive(t.Context(), h, models(t, m).start(t, `{"prompt":"x"}`))
	if err == nil || len(h.kept) != 2 || len(m.asked) != 3 {
		t.Fatalf("%v, %d kept, %d asked", err, len(h.kept), len(m.asked))
	}
	again := &fakeModel{replies: []reply{saying("bye")}}
	next := &fakeRun{t: t, parallel: 1, kept: h.kept}
	if err := loop().drive(t.Context(), next, models(t, again).start(t, `{"prompt":"x"}`)); err != nil {
		t.Fatal(err)
	}
	if len(again.asked) != 1 || len(again.asked[0].Talk) != 3 || again.asked[0].Talk[1].Said.Calls[0].Tool != "write.it" {
		t.Errorf("%+v", again.asked)
	}
	bad := &fakeRun{t: t, kept: map[int64][]byte{1: []byte(`{"v":99}`)}}
	if err := loop().drive(t.Context(), bad,
		models(t, again).start(t, `{"prompt":"x"}`)); palyra.AsError(err).Reason != palyra.ReasonInterrupted {
		t.Error(err)
	}
}

// A call is the same to the letter when its turn is taken from the record: it is
// known again by that.
func TestCallsAreTheSameAfterARestart(t *testing.T) {
	a := calling("read_it")
	a.Calls[0].Arguments = "{ \"a\" : \"<x> & \u2028 \\u003c\",\n\"n\":1.0e1 }"
	var made []string
	note := func(_ context.Context, _, _ int64, c run.ToolCall) (palyra.Outcome, error) {
		made = append(made, string(c.Arguments))
		return palyra.Outcome{}, nil
	}
	h := &fakeRun{t: t, parallel: 1, call: note}
	m := &fakeModel{replies: []reply{{answer: a}, saying("x"), saying("x")}}
	for range 2 {
		if err := loop().drive(t.Context(), h, models(t, m).start(t, `{"prompt":"x"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if len(made) != 2 || made[0] != made[1] || !strings.Contains(made[0], "<x> &") {
		t.Errorf("%q", made)
	}
}

// The next run of a session goes on with its conversation; a call whose result
// was never told is told as unknown.
func TestConversationsGoOn(t *testing.T) {
	h := &fakeRun{t: t, parallel: 1, call: func(context.Context, int64, int64, run.ToolCall) (palyra.Outcome, error) {
		return palyra.Outcome{}, errBroken
	}}
	m := &fakeModel{replies: []reply{{answer: calling("write_it")}}}
	if err := loop().drive(t.Context(), h, models(t, m).start(t, `{"prompt":"first"}`)); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	next := &fakeRun{t: t, earlier: []run.KeptTurn{{Body: []byte("nonsense")}, {Body: h.kept[1]}}}
	m = &fakeModel{replies: []reply{saying("ok")}}
	if err := loop().drive(t.Context(), next, models(t, m).start(t, `{"prompt":"second","system":"in verse"}`)); err != nil {
		t.Fatal(err)
	}
	talk := m.asked[0].Talk
	if len(talk) != 2 || talk[0].Heard.Texts[0] != "first" || talk[1].Heard.Texts[0] != "second" ||
		talk[1].Heard.Results[0].Text != neverTold || !strings.HasSuffix(m.asked[0].System, "in verse") {
		t.Errorf("%+v", talk)
	}
}

// What a model makes up is told to it, not proposed.
func TestCallsThatCannotBeMade(t *testing.T) {
	a := calling("made.up", "read_it", "read_it", "read_it")
	a.Calls[1].Arguments, a.Calls[2].Arguments, a.Calls[3].Arguments = `{"a":`, `[1]`, ``
	m := &fakeModel{replies: []reply{{answer: a}, saying("oh")}}
	h := &fakeRun{t: t, parallel: 1}
	if err := loop().drive(t.Context(), h, models(t, m).start(t, `{"prompt":"x"}`)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(h.notes, ","); strings.Count(got, "call") != 1 || !strings.Contains(got, "call 1/4 read.it") {
		t.Errorf("%s", got)
	}
	r := m.asked[1].Talk[1].Heard.Results
	if len(r) != 4 || !strings.Contains(r[0].Text, "there is no tool") || !strings.Contains(r[1].Text, "not a JSON object") ||
		!r[2].Failed || r[3].Failed {
		t.Errorf("%+v", r)
	}
	for _, w := range m.asked[1].Talk[0].Said.Calls { // what goes back is what a server takes
		if !json.Valid(w.Arguments) || strings.Contains(w.Name, ".") {
			t.Errorf("%+v", w)
		}
	}
}

// Faults that pass are waited out, as long as the server says; text that was cut
// off is told to be.
func TestAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &fakeModel{replies: []reply{
			{err: &Fault{Status: 429, After: 20 * time.Second}},
			{err: &Fault{Status: 529}},
			{say: []string{"half of "}, err: Cut(errors.New("EOF"))},
			{err: errors.New("connection reset")},
			saying("whole"),
		}}
		h := &fakeRun{t: t}
		began := time.Now()
		if err := loop().drive(t.Context(), h, models(t, m).start(t, `{"prompt":"x"}`)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 20*time.Second || took > 60*time.Second {
			t.Errorf("it took %s", took)
		}
		if got := strings.Join(h.notes, ","); !strings.Contains(got, "say 1 half of  false,anew 1,anew 1,say 1 whole false,keep 1") {
			t.Errorf("%s", got)
		}
	})
}

// Faults that do not pass end the run at once, and say what to do.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		times  int
		reason palyra.Reason
		says   string
	}{
		"key":         {&Fault{Status: 401, Message: "sk-secret"}, 1, palyra.ReasonModelKey, "/k/fake.key"},
		"no model":    {&Fault{Status: 404}, 1, palyra.ReasonModelNotFound, "ollama pull small"},
		"context":     {&Fault{Status: 400, Message: "This model's maximum context length is 8192"}, 1, palyra.ReasonModelContext, "--session"},
		"context too": {&Fault{Status: 400, Message: "prompt is too long: 210000 tokens"}, 1, palyra.ReasonModelContext, "context_bytes"},
		"refused":     {&Fault{Status: 400, Message: "tools are not supported"}, 1, palyra.ReasonModelRefused, "tools"},
		"quota":       {&Fault{Status: 429, Kind: "insufficient_quota"}, 1, palyra.ReasonModelRefused, "billing"},
		"rate":        {&Fault{Status: 429}, tries, palyra.ReasonModelOverloaded, "wait"},
		"rate, long":  {&Fault{Status: 429, After: time.Hour}, 1, palyra.ReasonModelOverloaded, "wait"},
		"server":      {&Fault{Status: 500}, tries, palyra.ReasonModelFailed, "later"},
		"overloaded":  {&Fault{Kind: "overloaded_error", Cut: true}, tries, palyra.ReasonModelOverloaded, "wait"},
		"elsewhere":   {&Fault{Status: 302}, 1, palyra.ReasonModelFailed, "base_url"},
		"a page":      {&Fault{Status: 200, Odd: "it answered with text/html"}, 1, palyra.ReasonModelFailed, "base_url"},
		"cut":         {Cut(errors.New("EOF")), tries, palyra.ReasonModelFailed, "again"},
		"too much":    {Cut(fmt.Errorf("read: %w", errTooLong)), 1, palyra.ReasonModelFailed, "less"},
		"not there": {
			palyra.Errorf(palyra.Unavailable, palyra.ReasonNotFound, "x cannot be reached"), tries, palyra.ReasonModelUnreachable,
			"base_url",
		},
		"not allowed":  {palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "no").WithRemedy("so"), 1, palyra.ReasonEgressDenied, "so"},
		"nothing said": {nil, tries, palyra.ReasonModelFailed, "later"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &fakeModel{}
				for range 10 {
					m.replies = append(m.replies, reply{err: c.err, answer: Answer{Stop: StopDone}})
				}
				err := loop().drive(t.Context(), &fakeRun{t: t}, models(t, m).start(t, `{"prompt":"x"}`))
				e := palyra.AsError(err)
				if e.Reason != c.reason || !strings.Contains(e.Remedy, c.says) || strings.Contains(e.Text, "secret") || len(m.asked) != c.times {
					t.Errorf("%s: %s (%s), asked %d times", e.Reason, e.Text, e.Remedy, len(m.asked))
				}
			})
		})
	}
}

// A model that hangs is given up, and a cancel ends the wait at once.
func TestNothingHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &fakeModel{replies: []reply{{wait: true}, {wait: true}}}
		err := loop().drive(t.Context(), &fakeRun{t: t}, models(t, m).start(t, `{"prompt":"x"}`))
		if e := palyra.AsError(err); e.Reason != palyra.ReasonTimedOut || !strings.Contains(e.Remedy, "timeout_ms") || len(m.asked) != 2 {
			t.Errorf("%v", err)
		}
		for _, r := range []reply{{wait: true}, {err: &Fault{Status: 429, After: time.Minute}}} {
			ctx, cancel := context.WithCancelCause(t.Context())
			began := time.Now()
			time.AfterFunc(time.Second, func() { cancel(errBroken) })
			err := loop().drive(ctx, &fakeRun{t: t}, models(t, &fakeModel{replies: []reply{r}}).start(t, `{"prompt":"x"}`))
			if !errors.Is(err, errBroken) || time.Since(began) != time.Second {
				t.Errorf("%v after %s", err, time.Since(began))
			}
		}
	})
}

// A turn too many, an answer that was too long and one that was declined end the
// run; what was said is kept.
func TestEndsOfRuns(t *testing.T) {
	for name, c := range map[string]struct {
		replies []reply
		reason  palyra.Reason
		kept    int
	}{
		"turns": {slices.Repeat([]reply{{answer: calling("read_it")}}, 9), palyra.ReasonBudgetSpent, 2},
		"length": {
			[]reply{{say: []string{"x"}, answer: Answer{Text: "x", Stop: StopLength, Calls: []Asked{{Name: "read_it"}}}}},
			palyra.ReasonModelFailed, 1,
		},
		"declined": {[]reply{{answer: Answer{Stop: StopDeclined}}}, palyra.ReasonModelRefused, 1},
	} {
		h := &fakeRun{t: t, parallel: 1}
		err := loop().drive(t.Context(), h, models(t, &fakeModel{replies: c.replies}).start(t, `{"prompt":"x","max_turns":2}`))
		if palyra.AsError(err).Reason != c.reason || len(h.kept) != c.kept || name == "length" &&
			strings.Contains(strings.Join(h.notes, ","), "call") {
			t.Errorf("%s: %v, %q", name, err, h.notes)
		}
	}
}

func TestInputs(t *testing.T) {
	m := models(t, &fakeModel{}, func(c *ModelsConfig) {
		c.Sources = append(c.Sources, Source{Name: "other", Model: &fakeModel{}, Timeout: time.Second, Allowed: []string{"a", "b/c"}})
	})
	for input, want := range map[string]palyra.Reason{
		``: palyra.ReasonMalformedInput, `{}`: palyra.ReasonMalformedInput, `{"prompt":" "}`: palyra.ReasonMalformedInput,
		`{"prompt":"x","more":1}`: palyra.ReasonMalformedInput,
		`{"prompt":"x"} {}`:       palyra.ReasonMalformedInput, `{"prompt":"x","model":"a b"}`: palyra.ReasonMalformedInput,
		`{"prompt":"x","max_turns":-1}`:                         palyra.ReasonMalformedInput,
		"{\"prompt\":\"\xff\"}":                                 palyra.ReasonMalformedInput,
		`{"prompt":"` + strings.Repeat("x", maxPrompt+1) + `"}`: palyra.ReasonInputTooLarge,
		`{"prompt":"x","model":"z"}`:                            palyra.ReasonModelNotFound,
	} {
		if _, err := m.Providers()["other"]([]byte(input)); palyra.AsError(err).Reason != want {
			t.Errorf("%.60s: %v", input, err)
		}
	}
	for _, c := range [][3]string{
		{"", `{"prompt":"x"}`, "fake"},
		{"", `{"prompt":"x","model":"other/a"}`, "other"},
		{"", `{"prompt":"x","model":"llama"}`, "fake"},
		{"fake", `{"prompt":"x","model":"meta/llama"}`, "fake"},
		{"scripted", "", "scripted"},
	} {
		if got, err := m.Resolve(c[0], []byte(c[1])); err != nil || got != c[2] {
			t.Errorf("%v: %s, %v", c, got, err)
		}
	}
	// A provider's name misspelt must not send the prompt to another one.
	if got, err := m.Resolve("", []byte(`{"prompt":"x","model":"ohter/a"}`)); palyra.AsError(err).Reason != palyra.ReasonNoModel ||
		!strings.Contains(palyra.AsError(err).Remedy, "other") {
		t.Errorf("%s, %v", got, err)
	}
	for want, input := range map[string]string{"a": `{"prompt":"x"}`, "b/c": `{"prompt":"x","model":"other/b/c"}`} {
		if p, err := m.Providers()["other"]([]byte(input)); err != nil || p.(Modelled).ModelName() != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	none := models(t, nil, func(c *ModelsConfig) { c.Sources, c.Default = nil, "" })
	if _, err := none.Resolve("", []byte(`{"prompt":"x"}`)); palyra.AsError(err).Reason != palyra.ReasonNoModel ||
		!strings.Contains(palyra.AsError(err).Remedy, "models.default") {
		t.Errorf("%v", err)
	}
	if _, err := NewModels(ModelsConfig{}); err == nil {
		t.Error("an incomplete config was taken")
	}
}

// The log of a run that had to ask again holds no word of the conversation.
func TestTheLogIsDiscreet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := &fakeModel{replies: []reply{{err: &Fault{Status: 500}}, saying("private")}}
		all := models(t, m, func(c *ModelsConfig) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		if err := loop().drive(t.Context(), &fakeRun{t: t}, all.start(t, `{"prompt":"secret plan"}`)); err != nil {
			t.Fatal(err)
		}
		if s := log.String(); !strings.Contains(s, "asked again") || strings.Contains(s, "private") || strings.Contains(s, "plan") {
			t.Errorf("%s", s)
		}
	})
}
