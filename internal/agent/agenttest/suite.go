package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/agent"
	"palyra/internal/mask"
)

// Key is what the suite's requests are signed with.
const Key = "sk-suite-0123456789abcdef"

// Protocol is a way to speak to models, under test.
type Protocol struct {
	New  func(base string, w *agent.Wire) agent.Model
	Sign func(http.Header, string)
	// Overloaded is a stream in which the server gives up.
	Overloaded string
}

// Wire is a wire to a server of this package.
func Wire(sign func(http.Header, string)) *agent.Wire {
	return &agent.Wire{
		Way: func(context.Context) (agent.Way, error) {
			return agent.Way{Dial: (&net.Dialer{}).DialContext, Close: func() {}}, nil
		},
		Key:  func(context.Context) (palyra.Secret, error) { return palyra.NewSecret([]byte(Key)), nil },
		Sign: sign, Idle: 30 * time.Second,
	}
}

// Question is one that has everything in it.
func Question() agent.Question {
	return agent.Question{
		Model: "m", System: "be good", MaxTokens: 99,
		Tools: []agent.Offer{{
			Name: "palyra_echo", Description: "says it again",
			Schema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`),
		}},
		Talk: []agent.Exchange{
			{
				Heard: agent.Heard{Texts: []string{"do it"}},
				Said: agent.Said{Text: "yes", Calls: []agent.Wish{
					{ID: "c1_1", Name: "palyra_echo", Arguments: json.RawMessage(`{"text":"<a>"}`)},
					{ID: "c1_2", Name: "palyra_echo", Arguments: json.RawMessage(`{}`)},
				}},
			},
			{Heard: agent.Heard{
				Results: []agent.Result{{ID: "c1_1", Text: "one"}, {ID: "c1_2", Text: "two", Failed: true}},
				Texts:   []string{"and now?"},
			}},
		},
	}
}

func (p Protocol) ask(ctx context.Context, s *Server, w *agent.Wire) (agent.Answer, string, error) {
	var said strings.Builder
	a, err := p.New(s.URL, w).Ask(ctx, Question(), func(text string) error {
		said.WriteString(text)
		return nil
	})
	return a, said.String(), err
}

var full = Reply{
	Text:  []string{"Grüß", " dich, ", "世界\n", "\u2028🙂"},
	Calls: []ToolCall{{Name: "palyra_echo", Args: []string{`{"te`, `xt":"a\"`, `b"}`}}, {Name: "palyra_fs_read", Args: []string{`{}`}}},
}

// Run runs the suite.
func (p Protocol) Run(t *testing.T) {
	t.Run("whole", p.whole)
	t.Run("stops", p.stops)
	t.Run("refusals", p.refusals)
	t.Run("cuts", p.cuts)
	t.Run("nonsense", p.nonsense)
	t.Run("without end", p.endless)
	t.Run("silence", p.silence)
	t.Run("cancelled", p.cancelled)
	t.Run("the key", p.key)
	t.Run("masked", p.masked)
}

// whole: an answer is the same, in whatever pieces it comes.
func (p Protocol) whole(t *testing.T) {
	for _, piece := range []int{0, 1, 2, 3, 7, 61} {
		r := full
		r.Piece = piece
		a, said, err := p.ask(t.Context(), New(t, r), Wire(p.Sign))
		text := strings.Join(full.Text, "")
		want := []agent.Asked{{Name: "palyra_echo", Arguments: `{"text":"a\"b"}`}, {Name: "palyra_fs_read", Arguments: `{}`}}
		if err != nil || a.Text != text || said != text || !slices.Equal(a.Calls, want) || a.Stop != agent.StopDone ||
			a.Tokens != (palyra.Tokens{InputTokens: 11, OutputTokens: 7}) {
			t.Errorf("in pieces of %d: %+v, said %q, %v", piece, a, said, err)
		}
	}
}

// masked: a server is not told the values of secrets.
func (p Protocol) masked(t *testing.T) {
	w, s := Wire(p.Sign), New(t, full)
	w.Mask = new(mask.Masker)
	w.Mask.Set(func(yield func(string, []byte) bool) { yield("word", []byte(Question().Tools[0].Description)) })
	if _, _, err := p.ask(t.Context(), s, w); err != nil {
		t.Fatal(err)
	}
	if raw := s.Seen()[0].Raw; strings.Contains(raw, Question().Tools[0].Description) || !strings.Contains(raw, "[secret word]") {
		t.Errorf("it was sent %s", raw)
	}
}

func (p Protocol) stops(t *testing.T) {
	for word, want := range map[string]agent.Stop{
		"length": agent.StopLength, "max_tokens": agent.StopLength,
		"content_filter": agent.StopDeclined, "refusal": agent.StopDeclined,
	} {
		a, _, err := p.ask(t.Context(), New(t, Reply{Text: []string{"x"}, Stop: word}), Wire(p.Sign))
		if err != nil || a.Stop != want && a.Stop != agent.StopDone { // each protocol has words of its own
			t.Errorf("%s: %+v, %v", word, a, err)
		}
	}
}

// refusals: a status is told as it is, and never with the key.
func (p Protocol) refusals(t *testing.T) {
	for status, kind := range map[int]string{
		401: "authentication_error", 400: "invalid_request_error", 404: "not_found_error",
		429: "rate_limit_error", 500: "api_error", 529: "overloaded_error", 302: "x",
	} {
		s := New(t, Reply{
			Status: status, Header: map[string]string{"Retry-After": "7", "Location": "/elsewhere"},
			Body: fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"no, %s,\nnot\u0007 so"}}`, kind, Key),
		})
		_, said, err := p.ask(t.Context(), s, Wire(p.Sign))
		var f *agent.Fault
		if !errors.As(err, &f) || f.Status != status || f.Kind != kind || f.After != 7*time.Second || f.Message != "no, [key], not so" ||
			said != "" || f.Cut {
			t.Errorf("%d: %+v", status, err)
		}
		if n := len(s.Seen()); n != 1 {
			t.Errorf("%d: it was asked %d times", status, n)
		}
	}
	s := New(t, Reply{Raw: strings.Replace(p.Overloaded, `"message":"`, `"message":"for `+Key+` `, 1), Piece: 7})
	_, _, err := p.ask(t.Context(), s, Wire(p.Sign))
	var f *agent.Fault
	if !errors.As(err, &f) || f.Kind != "overloaded_error" || !strings.HasPrefix(f.Message, "for [key] ") ||
		strings.Contains(fmt.Sprint(err, f.Cause), Key) {
		t.Errorf("overloaded on the way: %v", err)
	}
}

// cuts: wherever a stream breaks, there is a fault and no answer, unless all of it was there.
func (p Protocol) cuts(t *testing.T) {
	whole := len(full.OpenAI())
	step := max(whole/40, 1)
	for at := 1; at < whole; at += step {
		for _, abort := range []bool{true, false} {
			r := full
			r.Cut = at
			if !abort {
				r.Raw, r.Cut = p.stream(full)[:min(at, len(p.stream(full)))], 0
			}
			a, _, err := p.ask(t.Context(), New(t, r), Wire(p.Sign))
			var f *agent.Fault
			switch {
			case err == nil:
				if len(a.Calls) != 2 || a.Calls[1].Arguments != "{}" {
					t.Errorf("cut at %d of %d: %+v", at, whole, a)
				}
			case !errors.As(err, &f) || !f.Cut:
				t.Errorf("cut at %d: %v", at, err)
			}
		}
	}
}

func (p Protocol) stream(r Reply) string {
	if strings.Contains(p.Overloaded, "event: error") {
		return r.Anthropic()
	}
	return r.OpenAI()
}

func (p Protocol) nonsense(t *testing.T) {
	for name, raw := range map[string]string{
		"no JSON":  "event: message_start\ndata: {not json\n\n",
		"binary":   "\x00\xff\x00\n\n\n",
		"a number": "event: message_start\ndata: 17\n\n",
		"nothing":  "\n\n",
		"a list":   "event: content_block_delta\ndata: [[[]]]\n\n",
	} {
		a, _, err := p.ask(t.Context(), New(t, Reply{Raw: raw}), Wire(p.Sign))
		var f *agent.Fault
		if !errors.As(err, &f) || !f.Cut {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	s := New(t, Reply{Status: 200, Header: map[string]string{"Content-Type": "text/html"}, Body: "<html>Welcome</html>"})
	_, _, err := p.ask(t.Context(), s, Wire(p.Sign))
	var f *agent.Fault
	if !errors.As(err, &f) || !strings.Contains(f.Odd, "text/html") {
		t.Errorf("a page: %v", err)
	}
}

// endless: what does not end is ended.
func (p Protocol) endless(t *testing.T) {
	more := strings.Repeat("x", 64<<10)
	begin := Reply{Text: []string{"a"}}
	stream := p.stream(begin)
	head := stream[:strings.Index(stream, `"a"`)]
	head = head[:strings.LastIndex(head, "\n\n")+2]
	for name, r := range map[string]Reply{
		"text":     {Raw: head, Endless: strings.ReplaceAll(piece(p, stream), `"a"`, `"`+more+`"`)},
		"comments": {Raw: head, Endless: ": " + more + "\n"},
		"one line": {Raw: head + "data: ", Endless: more},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, _, err := p.ask(ctx, New(t, r), Wire(p.Sign))
		if e := (*palyra.Error)(nil); (!errors.As(err, &e) || e.Code != palyra.Exhausted) &&
			!strings.Contains(fmt.Sprint(errors.Unwrap(err)), "too long") || ctx.Err() != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// piece is the event of a stream that has its text.
func piece(p Protocol, stream string) string {
	for e := range strings.SplitSeq(stream, "\n\n") {
		if strings.Contains(e, `"a"`) {
			return e + "\n\n"
		}
	}
	return ""
}

func (p Protocol) silence(t *testing.T) {
	w := Wire(p.Sign)
	w.Idle = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, said, err := p.ask(ctx, New(t, Reply{Raw: p.stream(Reply{Text: []string{"so"}})[:0] + "\n", Hang: true}), w)
	var f *agent.Fault
	if !errors.As(err, &f) || !f.Cut || said != "" || ctx.Err() != nil {
		t.Errorf("%v", err)
	}
	a, _, err := p.ask(ctx, New(t, Reply{Text: []string{"slow"}, Piece: 40, Drip: time.Millisecond}), Wire(p.Sign))
	if err != nil || a.Text != "slow" {
		t.Errorf("slow: %+v, %v", a, err)
	}
}

func (p Protocol) cancelled(t *testing.T) {
	for _, r := range []Reply{{Wait: make(chan struct{})}, {Text: []string{"x"}, Raw: "\n", Hang: true}} {
		s := New(t, r)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-s.Asked()
			cancel()
		}()
		if _, _, err := p.ask(ctx, s, Wire(p.Sign)); err == nil || ctx.Err() == nil {
			t.Errorf("%v", err)
		}
	}
	stop := errors.New("enough")
	s := New(t, Reply{Text: []string{"x"}, Endless: "\n"})
	if _, err := p.New(s.URL, Wire(p.Sign)).Ask(t.Context(), Question(), func(string) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("say's error: %v", err)
	}
}

// key: it is on the request and nowhere else; nothing is said of this machine,
// and nothing is taken from the environment.
func (p Protocol) key(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID"} {
		t.Setenv(name, "from-the-environment")
	}
	s := New(t, full, full)
	if _, _, err := p.ask(t.Context(), s, Wire(p.Sign)); err != nil {
		t.Fatal(err)
	}
	w := Wire(p.Sign)
	w.Key = nil
	if _, _, err := p.ask(t.Context(), s, w); err != nil {
		t.Fatal(err)
	}
	seen := s.Seen()
	all := fmt.Sprint(seen)
	if !strings.Contains(fmt.Sprint(seen[0].Header), Key) || strings.Contains(seen[0].Raw, Key) || strings.Contains(fmt.Sprint(seen[1]), Key) {
		t.Errorf("the key: %v", seen)
	}
	if strings.Contains(all, "from-the-environment") || strings.Contains(all, "Stainless") || seen[0].Header.Get("User-Agent") != "palyra" {
		t.Errorf("%v", seen[0].Header)
	}
	w = Wire(p.Sign)
	refused := palyra.Errorf(palyra.Denied, palyra.ReasonModelKey, "no key")
	w.Key = func(context.Context) (palyra.Secret, error) { return palyra.Secret{}, refused }
	if _, _, err := p.ask(t.Context(), s, w); !errors.Is(err, refused) || len(s.Seen()) != 2 {
		t.Errorf("without a key: %v", err)
	}
}
