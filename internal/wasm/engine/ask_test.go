package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/wasm"
	"palyra/internal/wasm/wire"
)

// strict is a host that fails a test when it is asked for what was not granted.
type strict struct{ t *testing.T }

func (s strict) Request(_ context.Context, host string, r wasm.HTTPRequest) (wasm.HTTPResponse, error) {
	if at, err := hostOf(r.URL); host != "api.example.com" || at != "api.example.com:443" || err != nil {
		s.t.Errorf("a request to %s: %q %v", host, r.URL, err)
	}
	for _, name := range r.Secrets {
		if name != "TOKEN" {
			s.t.Errorf("with the secret %q", name)
		}
	}
	return wasm.HTTPResponse{Status: 200, Body: []byte("x")}, nil
}

func (s strict) check(prefix, key string) {
	if prefix != "notes/" || (key != "" && !strings.HasPrefix(key, prefix)) || len(key) > maxKey {
		s.t.Errorf("the key %q below %q", key, prefix)
	}
}

func (s strict) Get(_ context.Context, prefix, key string) ([]byte, error) {
	s.check(prefix, key)
	return nil, nil
}

func (s strict) Put(_ context.Context, prefix, key string, _ []byte) error {
	s.check(prefix, key)
	return nil
}

func (s strict) List(_ context.Context, prefix, start, after string, limit int) ([]string, error) {
	s.check(prefix, start)
	s.check(prefix, after)
	if limit < 1 || limit > maxList {
		s.t.Errorf("%d keys", limit)
	}
	return []string{"notes/a", "other/b"}, nil
}

func (s strict) Delete(_ context.Context, prefix, key string) error {
	s.check(prefix, key)
	return nil
}

func (s strict) Invoke(_ context.Context, name string, input json.RawMessage) (json.RawMessage, error) {
	if name != "palyra.echo" || !json.Valid(input) {
		s.t.Errorf("the tool %q with %q", name, input)
	}
	return json.RawMessage("{}"), nil
}

// TestWhatAModuleReachesForIsOnRecord: each thing once, before the module is told; it ends where that cannot be, or where there
// is more of it than anybody reads, and refusals of another kind do not crowd it out.
func TestWhatAModuleReachesForIsOnRecord(t *testing.T) {
	var told []wasm.Refusal
	var broken error
	begin := func() *exchange {
		told = nil
		return newExchange(wasm.Invocation{
			Kind: wasm.Command, Limits: filled(wasm.Limits{}), Grants: wasm.Grants{HTTPHosts: []string{"api.example.com"}},
			Host: wasm.Host{Web: strict{t}, Refused: func(_ context.Context, r wasm.Refusal) error {
				told = append(told, r)
				return broken
			}},
		})
	}
	reach := func(s *exchange, body string) wire.Answer {
		a, _ := s.serve(t.Context(), wire.Ask{Function: "http_request", Handle: s.list[0].Number}, [][]byte{[]byte(body)})
		return a
	}
	elsewhere := func(i int) string { return fmt.Sprintf(`{"url":"https://h%d.example.com/"}`, i) }
	s := begin()
	for range 100 {
		reach(s, "no request")
	}
	for i := range maxRefused - 1 {
		for range 2 {
			if a := reach(s, elsewhere(i)); a.Trap != "" || a.Code != codeRefused || len(told) != i+1 {
				t.Fatalf("%+v, told %d", a, len(told))
			}
		}
	}
	if a := reach(s, elsewhere(maxRefused)); a.Trap != string(wasm.ReasonHostCalls) || len(told) != maxRefused-1 {
		t.Errorf("%+v, told %d", a, len(told))
	}
	broken = errors.New("no room")
	s = begin()
	if a := reach(s, elsewhere(0)); a.Trap != string(palyra.ReasonJournalUnavailable) || s.trap.Remedy == "" {
		t.Errorf("%+v", a)
	}
	if a := reach(s, `{"url":"https://api.example.com/"}`); a.Trap == "" {
		t.Errorf("it goes on: %+v", a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s = begin()
	a, _ := s.serve(ctx, wire.Ask{Function: "http_request", Handle: s.list[0].Number}, [][]byte{[]byte(`{"url":"https://api.example.com/"}`)})
	if a.Trap == "" {
		t.Errorf("it does work for nobody: %+v", a)
	}
}

// TestNoSecretByATool: whoever may call the tool that makes requests may use no secret by that, however it is written.
func TestNoSecretByATool(t *testing.T) {
	tool := string(palyra.ToolFetch)
	for arguments, held := range map[string]bool{
		`{"url":"https://a.example/","bindings":["TOKEN"]}`:               true,
		`{"url":"https://a.example/","Bindings":["TOKEN"]}`:               true,
		`{"bindings":[],"url":"https://a.example/","bindings":["TOKEN"]}`: true,
		`{"url":"https://a.example/","\u0062indings":["TOKEN"]}`:          true,
		`{"url":"https://a.example/","headers":{"bindings":"no secret"}}`: false,
	} {
		var told []wasm.Refusal
		s := newExchange(wasm.Invocation{
			Limits: filled(wasm.Limits{}), Grants: wasm.Grants{Tools: []string{tool}},
			Host: wasm.Host{Tools: anyTool{}, Refused: func(_ context.Context, r wasm.Refusal) error {
				told = append(told, r)
				return nil
			}},
		})
		a, body := s.serve(t.Context(), wire.Ask{Function: "tool_call", Handle: s.list[0].Number}, [][]byte{[]byte(arguments)})
		refused := a.Code == codeRefused && strings.Contains(string(body), string(wasm.ReasonNotGranted))
		if refused != held || (len(told) > 0) != held {
			t.Errorf("%s: %+v %s, told %+v", arguments, a, body, told)
		}
	}
}

// anyTool answers every call.
type anyTool struct{}

func (anyTool) Invoke(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage("{}"), nil
}

// FuzzAsk: whatever a worker asks for, the host is only asked for what was granted, and the quotas hold.
func FuzzAsk(f *testing.F) {
	names := slices.Sorted(maps.Keys(hostCalls))
	for i := range names {
		f.Add(i, 0, int64(1), []byte(`{"url":"https://api.example.com/"}`), []byte("b"), true)
		f.Add(i, i, int64(-1), []byte("k"), []byte(""), false)
	}
	f.Add(3, 1, int64(1<<40), []byte("../x\x00"), []byte("\xff"), true)
	f.Fuzz(func(t *testing.T, which, handle int, number int64, a, b []byte, two bool) {
		s := newExchange(wasm.Invocation{
			Kind: wasm.Command, Limits: filled(wasm.Limits{HostCalls: 3, HostBytes: 1 << 16}),
			Grants: wasm.Grants{
				HTTPHosts: []string{"api.example.com"}, Secrets: []wasm.SecretGrant{{Name: "TOKEN", Hosts: []string{"api.example.com"}}},
				Storage: []string{"notes/"}, Tools: []string{"palyra.echo"}, Clock: true, Random: true, Log: true,
			},
			Host: wasm.Host{Web: strict{t}, Keys: strict{t}, Tools: strict{t}},
		})
		ask := wire.Ask{Function: string(a), Number: number, Handle: int64(handle)}
		if which >= 0 && which < len(names) {
			ask.Function = names[which]
		}
		if handle >= 0 && handle < len(s.list) {
			ask.Handle = s.list[handle].Number
		}
		parts := [][]byte{a}
		if two {
			parts = append(parts, b)
		}
		parts = parts[:min(len(parts), hostCalls[ask.Function].parts)]
		answers := 0
		for range 5 {
			answer, body := s.serve(t.Context(), ask, parts)
			if answer.Trap == "" {
				answers++
				if answer.Code >= 0 && int(answer.Code) != len(body) {
					t.Fatalf("%s: %+v with %d bytes", ask.Function, answer, len(body))
				}
			}
		}
		if answers > 3 || (answers > 0 && s.trap == nil) {
			t.Fatalf("%d answers, %v", answers, s.trap)
		}
		for _, u := range s.result().Used {
			if u.Count > 3 || u.Refused > 5 {
				t.Fatalf("%+v", u)
			}
		}
	})
}
