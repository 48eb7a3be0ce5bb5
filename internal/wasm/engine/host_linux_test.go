package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/wasm"
	"palyra/internal/wasm/engine"
	"palyra/internal/wasm/wasmtest"
)

// world is a host that writes down what it is asked for.
type world struct {
	asked   []string
	keys    map[string]string
	lines   []string
	refused []wasm.Refusal // that were put on record
}

func (w *world) host() wasm.Host {
	return wasm.Host{Web: w, Keys: w, Tools: w, Log: func(_ context.Context, level, text string) {
		w.lines = append(w.lines, level+": "+text)
	}, Refused: func(_ context.Context, r wasm.Refusal) error {
		w.refused = append(w.refused, r)
		return nil
	}}
}

func (w *world) note(format string, args ...any) {
	w.asked = append(w.asked, fmt.Sprintf(format, args...))
}

func (w *world) Request(_ context.Context, host string, r wasm.HTTPRequest) (wasm.HTTPResponse, error) {
	w.note("%s %s %s %s %v", host, r.Method, r.URL, r.Headers["Authorization"], r.Secrets)
	return wasm.HTTPResponse{Status: 200, Body: []byte("hello")}, nil
}

func (w *world) Get(_ context.Context, _, key string) ([]byte, error) {
	if v, ok := w.keys[key]; ok {
		return []byte(v), nil
	}
	return nil, nil
}

func (w *world) Put(_ context.Context, prefix, key string, value []byte) error {
	w.note("put %s", key)
	if !strings.HasPrefix(key, prefix) {
		return fmt.Errorf("%s is not below %s", key, prefix)
	}
	w.keys[key] = string(value)
	return nil
}

func (w *world) List(_ context.Context, _, start, after string, limit int) (out []string, err error) {
	for _, k := range slices.Sorted(maps.Keys(w.keys)) {
		if strings.HasPrefix(k, start) && k > after && len(out) < limit {
			out = append(out, k)
		}
	}
	return out, nil
}

func (w *world) Delete(_ context.Context, _, key string) error {
	delete(w.keys, key)
	return nil
}

func (w *world) Invoke(_ context.Context, name string, input json.RawMessage) (json.RawMessage, error) {
	w.note("%s %s", name, input)
	if name == "broken" {
		return nil, fmt.Errorf("the value of the secret is 42")
	}
	return json.RawMessage(`{"outcome":"finished"}`), nil
}

// all is every permit that the guest's tests need.
var all = wasm.Grants{
	HTTPHosts: []string{"api.example.com", "other.example.com:8443"},
	Secrets:   []wasm.SecretGrant{{Name: "TOKEN", Hosts: []string{"api.example.com"}}},
	Storage:   []string{"notes/"}, Tools: []string{"palyra.echo", "broken"}, Clock: true, Random: true, Log: true,
}

type answer struct {
	Code   int64  `json:"code"`
	Handle int64  `json:"handle"`
	Text   string `json:"text"`
}

// guest has the guest do steps, which are JSON without the brackets.
func guest(t *testing.T, e *engine.Engine, g wasm.Grants, h wasm.Host, steps ...string) ([]answer, wasm.Result, error) {
	t.Helper()
	r, err := e.Run(t.Context(), wasm.Invocation{
		Module: wasmtest.Guest(t), Kind: wasm.Command, Function: "steps", Input: []byte("[" + strings.Join(steps, ",") + "]"), Grants: g, Host: h,
	})
	var out []answer
	if err == nil {
		err = json.Unmarshal(r.Output, &out)
	}
	return out, r, err
}

// TestHostFunctions: a module does what it was granted, by handles, and the result says what that was.
func TestHostFunctions(t *testing.T) {
	e := wasmtest.Engine(t, engine.Config{})
	w := &world{keys: map[string]string{"other/x": "not yours"}}
	out, r, err := guest(t, e, all, w.host(),
		`{"do":"secret_use","kind":"secret","name":"TOKEN"}`,
		`{"do":"http_request","kind":"http","name":"api.example.com","a":`+
			strconv.Quote(`{"method":"GET","url":"https://api.example.com/x","headers":{"Authorization":"Bearer {{TOKEN}}"}}`)+`}`,
		`{"do":"kv_put","kind":"storage","name":"notes/","a":"k","b":"v"}`,
		`{"do":"kv_get","kind":"storage","name":"notes/","a":"k"}`,
		`{"do":"kv_get","kind":"storage","name":"notes/","a":"none"}`,
		`{"do":"kv_list","kind":"storage","name":"notes/","n":10}`,
		`{"do":"kv_delete","kind":"storage","name":"notes/","a":"k"}`,
		`{"do":"kv_get","kind":"storage","name":"notes/","a":"k"}`,
		`{"do":"tool_call","kind":"tool","name":"palyra.echo","a":"{\"x\":1}"}`,
		`{"do":"log","kind":"log","a":"a line","n":2}`,
		`{"do":"clock","kind":"clock"}`,
		`{"do":"random","kind":"random","n":16}`,
		`{"do":"stderr","a":"an error"}`,
	)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.Logs)
	}
	texts := []string{"{{TOKEN}}", `{"status":200,"body":"aGVsbG8="}`, "", "v", "", `["k"]`, "", "", `{"outcome":"finished"}`}
	for i, want := range texts {
		if out[i].Text != want {
			t.Errorf("step %d: %+v, want %q", i, out[i], want)
		}
	}
	if out[4].Code != -2 || out[7].Code != -2 {
		t.Errorf("keys that are not there: %+v %+v", out[4], out[7])
	}
	want := []string{
		"api.example.com GET https://api.example.com/x Bearer {{TOKEN}} [TOKEN]", "put notes/k", `palyra.echo {"x":1}`,
	}
	if !slices.Equal(w.asked, want) || !slices.Equal(w.lines, []string{"warn: a line"}) {
		t.Errorf("%q %q", w.asked, w.lines)
	}
	if out[10].Code < 1e18 || out[11].Text == strings.Repeat("0", 32) || string(r.Logs) != "warn: a line\nan error\n" {
		t.Errorf("%+v %+v %q", out[10], out[11], r.Logs)
	}
	used := map[string]int{}
	for _, u := range r.Used {
		used[string(u.Kind)+" "+u.Name+" "+u.Function] = u.Count - 100*u.Refused
	}
	if used["storage notes/ kv_get"] != 3 || used["http api.example.com http_request"] != 1 || used["secret TOKEN secret_use"] != 1 ||
		len(r.Granted) != 9 || r.Fuel == 0 || r.Runtime != "wasmtime 44.0.0" || r.ABI != wasm.ABI {
		t.Errorf("%v\n%+v", used, r)
	}
}

// TestWhatIsNotGranted is refused, and on record; nothing of it reaches the host.
func TestWhatIsNotGranted(t *testing.T) {
	e := wasmtest.Engine(t, engine.Config{})
	request := func(host, url string) string {
		b, _ := json.Marshal(map[string]string{"do": "http_request", "kind": "http", "name": host, "a": `{"url":"` + url + `"}`})
		return string(b)
	}
	for name, c := range map[string]struct {
		steps []string
		want  palyra.Reason // of the last step
	}{
		"another host": {[]string{request("api.example.com", "https://evil.example.com/")}, wasm.ReasonNotGranted},
		"another port": {
			[]string{request("api.example.com", "https://api.example.com:8443/")},
			wasm.ReasonNotGranted,
		},
		"another scheme": {[]string{request("api.example.com", "http://api.example.com/")}, wasm.ReasonNotGranted},
		"a name in the name": {
			[]string{request("api.example.com", "https://api.example.com@evil.example.com/")},
			palyra.ReasonMalformedInput,
		},
		"a host below": {[]string{request("api.example.com", "https://x.api.example.com/")}, wasm.ReasonNotGranted},
		"a file":       {[]string{request("api.example.com", "file:///etc/passwd")}, palyra.ReasonMalformedInput},
		"no address":   {[]string{request("api.example.com", "/x")}, palyra.ReasonMalformedInput},
		"a secret for another host": {
			[]string{`{"do":"secret_use","kind":"secret","name":"TOKEN"}`, request("other.example.com:8443", "https://other.example.com:8443/")},
			wasm.ReasonNotGranted,
		},
		"secrets of its own words": {
			[]string{`{"do":"http_request","kind":"http","name":"api.example.com","a":"{\"url\":\"https://api.example.com/\",\"secrets\":[\"TOKEN\"]}"}`},
			palyra.ReasonMalformedInput,
		},
		"no request": {
			[]string{`{"do":"http_request","kind":"http","name":"api.example.com","a":"x"}`},
			palyra.ReasonMalformedInput,
		},
		"an empty key": {
			[]string{`{"do":"kv_put","kind":"storage","name":"notes/","a":"","b":"v"}`},
			palyra.ReasonMalformedInput,
		},
		"a long key": {
			[]string{`{"do":"kv_put","kind":"storage","name":"notes/","a":"` + strings.Repeat("x", 600) + `","b":"v"}`},
			palyra.ReasonMalformedInput,
		},
		"no JSON": {
			[]string{`{"do":"tool_call","kind":"tool","name":"palyra.echo","a":"{"}`},
			palyra.ReasonMalformedInput,
		},
		"no level":         {[]string{`{"do":"log","kind":"log","a":"x","n":9}`}, palyra.ReasonMalformedInput},
		"much randomness":  {[]string{`{"do":"random","kind":"random","n":100000}`}, palyra.ReasonMalformedInput},
		"a host's failure": {[]string{`{"do":"tool_call","kind":"tool","name":"broken","a":"{}"}`}, palyra.ReasonInternal},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{keys: map[string]string{}}
			out, r, err := guest(t, e, all, w.host(), c.steps...)
			if err != nil {
				t.Fatal(err)
			}
			last := out[len(out)-1]
			var said struct {
				Reason palyra.Reason `json:"reason_code"`
				Text   string        `json:"reason"`
			}
			if name != "much randomness" { // whose answer is no text
				if err := json.Unmarshal([]byte(last.Text), &said); err != nil || said.Reason != c.want || strings.Contains(said.Text, "42") {
					t.Errorf("%+v %v, want %s", last, err, c.want)
				}
			}
			if last.Code != -1 || len(w.keys) > 0 || (len(w.asked) > 0 && c.want != palyra.ReasonInternal) {
				t.Errorf("%+v %v", last, w)
			}
			refused := 0
			for _, u := range r.Used {
				refused += u.Refused
			}
			if refused != 1 || len(r.Refused) != 1 || r.Refused[0].Reason != c.want || slices.Equal(w.refused, r.Refused) !=
				(c.want == wasm.ReasonNotGranted) {
				t.Errorf("not on record: %+v, %+v, %+v", r.Used, r.Refused, w.refused)
			}
		})
	}
	for _, ask := range []string{
		`"kind":"http","name":"evil.example.com"`, `"kind":"secret","name":"OTHER"`, `"kind":"storage","name":"other/"`, `"kind":"storage","name":""`,
		`"kind":"tool","name":"palyra.process.run"`, `"kind":"nothing","name":"x"`,
	} {
		w := &world{}
		out, r, err := guest(t, e, all, w.host(), `{"do":"handle",`+ask+`}`)
		noted := slices.ContainsFunc(r.Used, func(u wasm.Use) bool { return u.Refused == 1 && u.Function == "handle" })
		if err != nil || out[0].Handle != 0 || !noted || len(w.refused) != 1 || !slices.Equal(w.refused, r.Refused) {
			t.Errorf("%s: %+v %+v %+v %v", ask, out, r.Used, w.refused, err)
		}
	}
	if out, _, err := guest(t, e, wasm.Grants{}, wasm.Host{}, `{"do":"handle","kind":"clock"}`, `{"do":"handle","kind":"log"}`); err != nil ||
		out[0].Handle != 0 || out[1].Handle != 0 {
		t.Errorf("%+v %v", out, err)
	}
}

// TestHandlesAreOfOneInvocation: a number that was a handle is none in the next.
func TestHandlesAreOfOneInvocation(t *testing.T) {
	e := wasmtest.Engine(t, engine.Config{})
	seen := map[int64]bool{}
	for range 3 {
		out, _, err := guest(t, e, all, wasm.Host{}, `{"do":"clock","kind":"clock"}`)
		if err != nil || seen[out[0].Handle] || out[0].Handle == 0 {
			t.Fatalf("%+v %v", out, err)
		}
		seen[out[0].Handle] = true
		_, r, err := guest(t, e, all, wasm.Host{}, fmt.Sprintf(`{"do":"clock","handle":%d}`, out[0].Handle))
		wants(t, err, wasm.ReasonHandle)
		if !slices.ContainsFunc(r.Used, func(u wasm.Use) bool { return u.Refused == 1 && u.Function == "clock" }) {
			t.Errorf("%+v", r.Used)
		}
	}
}

// TestAProgramFindsNothingAroundIt: what ordinary programs use without asking is not there, and time and randomness that were
// not granted are the same in every run.
func TestAProgramFindsNothingAroundIt(t *testing.T) {
	e := wasmtest.Engine(t, engine.Config{})
	out, _, err := guest(t, e, wasm.Grants{}, wasm.Host{}, `{"do":"open","a":"/etc/passwd"}`, `{"do":"open","a":"x"}`, `{"do":"write","a":"/tmp/x"}`,
		`{"do":"list","a":"/"}`)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range out {
		if !strings.HasPrefix(a.Text, "error: ") {
			t.Errorf("step %d: %+v", i, a)
		}
	}
	quiet := []string{`{"do":"env"}`, `{"do":"args"}`, `{"do":"now"}`, `{"do":"sleep","n":3600000}`, `{"do":"now"}`}
	first, r, err := guest(t, e, wasm.Grants{}, wasm.Host{}, quiet...)
	second, _, err2 := guest(t, e, wasm.Grants{}, wasm.Host{}, quiet...)
	if err != nil || err2 != nil || !slices.Equal(first, second) {
		t.Errorf("%+v %v, then %+v %v", first, err, second, err2)
	}
	if first[0].Text != "[]" || first[1].Text != "[palyra-skill/1 steps]" || !strings.HasPrefix(first[2].Text, "1970-01-01T00:00:00.0") ||
		first[3].Text != "true" || !strings.HasPrefix(first[4].Text, "1970-01-01T01:00:00.0") {
		t.Errorf("%+v", first)
	}
	if r.Took.Seconds() > 5 || len(r.Used) > 0 {
		t.Errorf("%s, %+v", r.Took, r.Used)
	}
	out, r, err = guest(t, e, wasm.Grants{Clock: true, Random: true}, wasm.Host{}, `{"do":"now"}`, `{"do":"sleep","n":50}`)
	if err != nil || !strings.HasPrefix(out[0].Text, "20") || out[1].Text != "true" || r.Took.Milliseconds() < 50 || len(r.Used) != 2 {
		t.Errorf("%+v %+v %v", out, r.Used, err)
	}
	_, r, err = guest(t, e, wasm.Grants{}, wasm.Host{}, `{"do":"exit","n":3}`)
	wants(t, err, wasm.ReasonExit)
	if r.Exit != 3 {
		t.Errorf("%+v", r)
	}
	_, r, err = guest(t, e, wasm.Grants{}, wasm.Host{}, `{"do":"panic","a":"oh no"}`)
	wants(t, err, wasm.ReasonExit)
	if !strings.Contains(string(r.Logs), "panic: oh no") {
		t.Errorf("%s", r.Logs)
	}
}
