package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"palyra"
)

// Whatever is left out, a conversation has for every call its result right after
// it, for every result its call, and the prompt.
func TestConversationsAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.IntRange(0, 6).Draw(t, "first")
		n := first + rapid.IntRange(1, 6).Draw(t, "n")
		var talk []Exchange
		var open []Wish
		for i := range n {
			var x Exchange
			for _, w := range open {
				if rapid.IntRange(0, 9).Draw(t, "told") > 0 {
					x.Heard.Results = append(x.Heard.Results, Result{ID: w.ID, Text: strings.Repeat("r", rapid.IntRange(0, 3000).Draw(t, "size"))})
				}
			}
			if i == first {
				x.Heard.Texts = []string{"the prompt"}
			}
			open = nil
			if i < n-1 {
				x.Said.Text = rapid.StringN(0, 5, -1).Draw(t, "said")
				for j := range rapid.IntRange(0, 3).Draw(t, "calls") {
					open = append(open, Wish{ID: wishID("01ABCDEFGHJKMNPQRSTVWXYZ00", int64(i), j), Name: "x", Arguments: json.RawMessage(`{}`)})
				}
				x.Said.Calls = open
			}
			talk = append(talk, x)
		}
		most := rapid.IntRange(0, 20_000).Draw(t, "most")
		got := sound(fit(talk, first, most))
		prompt, size := false, 0
		open = nil
		for i, x := range got {
			if len(x.Heard.Results) != len(open) {
				t.Fatalf("exchange %d has %d results of %d calls", i, len(x.Heard.Results), len(open))
			}
			for j, r := range x.Heard.Results {
				if r.ID != open[j].ID || len(r.ID) > 40 {
					t.Fatalf("result %q", r.ID)
				}
			}
			if len(x.Heard.Results)+len(x.Heard.Texts) == 0 {
				t.Fatalf("nothing was heard in %d", i)
			}
			for _, text := range x.Heard.Texts {
				prompt = prompt || text == "the prompt"
			}
			open = x.Said.Calls
			size += x.size()
		}
		if !prompt || len(got) == 0 {
			t.Fatal("the prompt is gone")
		}
		if slack := got[len(got)-1].size() + 2000; size > most+slack {
			t.Fatalf("%d bytes of %d", size, most)
		}
	})
}

// The oldest results go first, the prompt and what is heard now last.
func TestWhatIsLeftOutFirst(t *testing.T) {
	big := strings.Repeat("x", 3000)
	talk := []Exchange{
		{Heard: Heard{Texts: []string{"old prompt"}}, Said: Said{Calls: []Wish{{ID: "a"}}}},
		{Heard: Heard{Results: []Result{{ID: "a", Text: big}}}, Said: Said{Text: "old answer"}},
		{Heard: Heard{Texts: []string{"prompt"}}, Said: Said{Calls: []Wish{{ID: "b"}}}},
		{Heard: Heard{Results: []Result{{ID: "b", Text: big}}}},
	}
	got := fit(talk, 2, 4000)
	if got[1].Heard.Results[0].Text != leftOut || got[3].Heard.Results[0].Text != big || talk[1].Heard.Results[0].Text != big {
		t.Errorf("%+v", got)
	}
	got = fit(talk, 2, 3300)
	if len(got) != 2 || got[0].Heard.Texts[0] != turnsOut || got[0].Heard.Texts[1] != "prompt" || got[1].Heard.Results[0].Text != big {
		t.Errorf("%+v", got)
	}
	if got = fit(talk, 2, 10); len(got) != 1 || !strings.Contains(strings.Join(got[0].Heard.Texts, " "), "prompt") ||
		got[0].Heard.Results != nil {
		t.Errorf("%+v", got)
	}
}

type shelf map[palyra.ID]string

func (s shelf) Keep(_ context.Context, session palyra.SessionID, call palyra.CallID, data []byte) (palyra.ID, error) {
	if s == nil {
		return "", errBroken
	}
	id := palyra.ID(session) + "/" + palyra.ID(call)
	s[id] = string(data)
	return id, nil
}

func TestResultsAreBounded(t *testing.T) {
	big := strings.Repeat("ä", 5000)
	kept := shelf{}
	o := palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: 3, Stdout: big, Stderr: "small", SessionID: "S", CallID: "C"}
	text, failed := teller{kept, 1000}.tell(t.Context(), o)
	if len(text) > 2000 || !strings.Contains(text, `"artifact_id":"S/C"`) || !strings.Contains(text, `"exit_code":3`) ||
		!strings.Contains(text, `"stderr":"small"`) || !utf8.ValidString(text) || failed || kept["S/C"] != big {
		t.Errorf("%t %s", failed, text)
	}
	if text, _ = (teller{shelf(nil), 1000}).tell(t.Context(), o); !strings.Contains(text, "could not be kept: broken") {
		t.Errorf("%s", text)
	}
	text, _ = teller{nil, 1000}.tell(t.Context(), palyra.Outcome{Outcome: palyra.OutcomeFinished, Output: json.RawMessage(`{"a":"<b>"}`)})
	if text != `{"outcome":"finished","untrusted":{"output":{"a":"<b>"}}}` {
		t.Errorf("%s", text)
	}
	text, failed = teller{nil, 1000}.tell(t.Context(),
		palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonPolicyDenied, Reason: "no", Remedy: "ask", ExitCode: 126})
	if text != `{"outcome":"refused","reason_code":"policy_denied","reason":"no","remedy":"ask"}` || !failed {
		t.Errorf("%s", text)
	}
	text, _ = teller{nil, 100}.tell(t.Context(),
		palyra.Outcome{Outcome: palyra.OutcomeFinished, Output: json.RawMessage(`not json`), StdoutB64: strings.Repeat("A", 500)})
	if !json.Valid([]byte(text)) {
		t.Errorf("%s", text)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "0.5": time.Second / 2, "-3": 0, "soon": 0, "1e30": 24 * time.Hour, "NaN": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %s", value, got)
		}
	}
	if got := retryAfter(http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"9"}}, now); got != 1500*time.Millisecond {
		t.Error(got)
	}
}

// Whatever a server says, what we make of it is one short clean line.
func FuzzFaultOf(f *testing.F) {
	for _, s := range []string{
		`{"error":{"type":"x","message":"y"}}`, `{"error":"text"}`, `{"error":{"code":5}}`, "\x1b[2J", `{}`, `null`,
		`[1]`, "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		v := FaultOf(body)
		for _, s := range []string{v.Kind, v.Message} {
			if len(s) > 310 || !utf8.ValidString(s) || strings.ContainsAny(s, "\n\r\x1b\x00") {
				t.Errorf("%q", s)
			}
		}
	})
}

// Whatever pieces come, what is gathered is bounded.
func FuzzGather(f *testing.F) {
	f.Add(int64(0), "id", "name", "args", "text")
	f.Fuzz(func(t *testing.T, index int64, id, name, args, text string) {
		var g Gather
		for i := range 200 {
			if g.Text(text) != nil || g.Call(index+int64(i%70), id, name, args) != nil {
				break
			}
		}
		a := g.Answer()
		if len(a.Calls) > maxCalls || len(a.Text) > 3*maxAnswerText || !utf8.ValidString(a.Text) {
			t.Errorf("%d calls, %d bytes", len(a.Calls), len(a.Text))
		}
	})
}
