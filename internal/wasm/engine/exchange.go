package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"palyra"
	"palyra/internal/wasm"
	"palyra/internal/wasm/wire"
)

// exchange is the daemon's side of one invocation.
type exchange struct {
	i       wasm.Invocation
	res     wasm.Result
	permits map[int64]wasm.Permit // by handle
	list    []wire.Handle
	used    map[wasm.Use]*wasm.Use // by permit and function
	calls   int
	bytes   int64
	lines   []byte   // of the log
	taken   []string // secrets for the next request
	trap    *palyra.Error
}

const maxDenied = 16

func newExchange(i wasm.Invocation) *exchange {
	s := &exchange{i: i, permits: map[int64]wasm.Permit{}, used: map[wasm.Use]*wasm.Use{}}
	s.res.ABI = wasm.ABI
	add := func(k wasm.PermitKind, names ...string) {
		for _, n := range names {
			s.res.Granted = append(s.res.Granted, wasm.Permit{Kind: k, Name: n})
		}
	}
	g := i.Grants
	add(wasm.HTTP, g.HTTPHosts...)
	for _, sec := range g.Secrets {
		add(wasm.Secret, sec.Name)
	}
	add(wasm.Storage, g.Storage...)
	add(wasm.Tool, g.Tools...)
	for k, has := range map[wasm.PermitKind]bool{wasm.Clock: g.Clock, wasm.Random: g.Random, wasm.Log: g.Log} {
		if has {
			add(k, "")
		}
	}
	slices.SortFunc(s.res.Granted, byName)
	s.res.Granted = slices.Compact(s.res.Granted)
	for _, p := range s.res.Granted {
		n := number()
		for s.permits[n].Kind != "" {
			n = number()
		}
		s.permits[n] = p
		s.list = append(s.list, wire.Handle{Kind: string(p.Kind), Name: p.Name, Number: n})
	}
	return s
}

func byName(a, b wasm.Permit) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// result is what is known so far.
func (s *exchange) result() wasm.Result {
	for _, u := range s.used {
		s.res.Used = append(s.res.Used, *u)
	}
	s.used = nil
	slices.SortFunc(s.res.Used, func(a, b wasm.Use) int {
		return cmp.Or(byName(a.Permit, b.Permit), cmp.Compare(a.Function, b.Function))
	})
	return s.res
}

// use returns the record of a permit and a function.
func (s *exchange) use(p wasm.Permit, name string) *wasm.Use {
	k := wasm.Use{Permit: p, Function: name}
	if s.used[k] == nil {
		u := k
		s.used[k] = &u
	}
	return s.used[k]
}

// maxRefused is the most different refusals of an invocation.
const maxRefused = 64

// note keeps that a host call was refused. What reached for more than was granted is on record before the module is told, and
// where it cannot be, or there is more of it than anybody reads, the invocation ends.
func (s *exchange) note(ctx context.Context, r wasm.Refusal) {
	r.Text = palyra.Clip(r.Text, mostText)
	switch full := len(s.res.Refused) >= maxRefused; {
	case slices.Contains(s.res.Refused, r), full && !r.Beyond():
		return
	case full:
		s.end(wasm.ReasonHostCalls, "the module reached for more than %d things that it was not granted", maxRefused)
		return
	}
	s.res.Refused = append(s.res.Refused, r)
	if !r.Beyond() || s.i.Host.Refused == nil {
		return
	}
	if err := s.i.Host.Refused(ctx, r); err != nil {
		s.trap = palyra.Errorf(palyra.Unavailable, palyra.ReasonJournalUnavailable, "what the module reached for could not be recorded").
			WithRemedy("see 'palyra doctor'").WithCause(err)
	}
}

// counted adds what the worker counts itself.
func (s *exchange) counted(ctx context.Context, d wire.Done) {
	if d.Clock > 0 && s.i.Grants.Clock {
		s.use(wasm.Permit{Kind: wasm.Clock}, "clock_time_get").Count += int(d.Clock)
	}
	if d.Random > 0 && s.i.Grants.Random {
		s.use(wasm.Permit{Kind: wasm.Random}, "random_get").Bytes += d.Random
		s.use(wasm.Permit{Kind: wasm.Random}, "random_get").Count++
	}
	for _, h := range d.Denied {
		k := wasm.PermitKind(h.Kind)
		if !slices.Contains(kinds, k) {
			k = "unknown"
		}
		p := wasm.Permit{Kind: k, Name: palyra.Clip(h.Name, 200)}
		u := s.use(p, "handle")
		u.Count++
		u.Refused++
		s.note(ctx, wasm.Refusal{Permit: p, Function: u.Function, Reason: wasm.ReasonNotGranted, Text: "no such handle was granted"})
	}
}

var kinds = []wasm.PermitKind{wasm.HTTP, wasm.Secret, wasm.Storage, wasm.Tool, wasm.Clock, wasm.Random, wasm.Log}

// hostCall is a host function: which permit it takes, and what it does. An answer that is not negative and no number is
// the length of its bytes.
type hostCall struct {
	kind  wasm.PermitKind
	parts int
	do    func(ctx context.Context, s *exchange, p wasm.Permit, ask wire.Ask, parts [][]byte) (wire.Answer, []byte, error)
}

var hostCalls = map[string]hostCall{
	"http_request": {wasm.HTTP, 1, request},
	"secret_use":   {wasm.Secret, 0, useSecret},
	"kv_get":       {wasm.Storage, 1, kvGet},
	"kv_put":       {wasm.Storage, 2, kvPut},
	"kv_delete":    {wasm.Storage, 1, kvDelete},
	"kv_list":      {wasm.Storage, 2, kvList},
	"tool_call":    {wasm.Tool, 1, toolCall},
	"clock":        {wasm.Clock, 0, clock},
	"random":       {wasm.Random, 0, random},
	"log":          {wasm.Log, 1, logLine},
}

// Codes of answers that are no lengths. What went wrong is the result, as JSON.
const (
	codeRefused = -1
	codeNothing = -2 // nothing is kept under the key
)

// serve does a host call. A trap is remembered: the worker cannot make another end of it.
func (s *exchange) serve(ctx context.Context, ask wire.Ask, parts [][]byte) (wire.Answer, []byte) {
	size := int64(0)
	for _, p := range parts {
		size += int64(len(p))
	}
	f, ok := hostCalls[ask.Function]
	p, granted := s.permits[ask.Handle]
	s.calls++
	s.bytes += size
	switch {
	case s.trap != nil:
	case ctx.Err() != nil: // nobody waits for the module any more, or it was taken away
		s.end(wasm.ReasonDeadline, "the time of the call is over")
	case s.calls > s.i.Limits.HostCalls:
		s.end(wasm.ReasonHostCalls, "the module made more than %d host calls", s.i.Limits.HostCalls)
	case s.bytes > s.i.Limits.HostBytes:
		s.end(wasm.ReasonHostBytes, "the module's host calls took more than %d bytes", s.i.Limits.HostBytes)
	case !ok || len(parts) != f.parts:
		s.end(wasm.ReasonTrap, "the module made a host call that there is not")
	case !granted || p.Kind != f.kind:
		s.use(wasm.Permit{Kind: f.kind}, ask.Function).Refused++
		s.end(wasm.ReasonHandle, "the module called %s with a number that is no handle of it for that", ask.Function)
		s.note(ctx, wasm.Refusal{
			Permit: wasm.Permit{Kind: f.kind}, Function: ask.Function, Reason: wasm.ReasonHandle, Text: "a number that is no handle for that",
		})
	}
	if s.trap != nil {
		return trapped(s.trap), nil
	}
	u := s.use(p, ask.Function)
	u.Count++
	a, body, err := f.do(ctx, s, p, ask, parts)
	if err != nil {
		u.Refused++
		a, body = refusal(ctx, err)
		e := palyra.AsError(err)
		s.note(ctx, wasm.Refusal{Permit: p, Function: ask.Function, Reason: e.Reason, Text: e.Text})
	}
	if s.trap != nil {
		return trapped(s.trap), nil
	}
	u.Bytes += size + int64(len(body))
	if s.bytes += int64(len(body)); s.bytes > s.i.Limits.HostBytes {
		s.end(wasm.ReasonHostBytes, "the module's host calls took more than %d bytes", s.i.Limits.HostBytes)
		return trapped(s.trap), nil
	}
	return a, body
}

// end ends the invocation.
func (s *exchange) end(r palyra.Reason, format string, args ...any) {
	s.trap = ends[r].with(r, palyra.Errorf("", r, format, args...).Text)
}

func trapped(e *palyra.Error) wire.Answer { return wire.Answer{Trap: string(e.Reason), Text: e.Text} }

// refusal is what the module is told of an error.
func refusal(ctx context.Context, err error) (wire.Answer, []byte) {
	e := palyra.AsError(err)
	if ctx.Err() != nil {
		e = palyra.Errorf(palyra.Exhausted, wasm.ReasonDeadline, "the time of the call is over")
	}
	body, _ := json.Marshal(map[string]string{ // texts are always JSON
		"reason_code": string(e.Reason), "reason": palyra.Clip(e.Text, mostText), "remedy": palyra.Clip(e.Remedy, mostText),
	})
	return wire.Answer{Code: codeRefused}, body
}

func notGranted(format string, args ...any) error {
	return palyra.Errorf(palyra.Denied, wasm.ReasonNotGranted, format, args...).
		WithRemedy("have the skill's manifest ask for it, and grant it")
}

func malformed(format string, args ...any) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, format, args...)
}

// notHere is the answer where the daemon has nothing that does it.
func notHere(what string) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled, "there is nothing here that does %s for skills", what)
}

func bytes(b []byte) (wire.Answer, []byte, error) { return wire.Answer{Code: int32(len(b))}, b, nil }

// document answers with a value as JSON.
func document(v any) (wire.Answer, []byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	return bytes(b)
}

// request makes a request to the host of its permit, with the secrets that were taken for it.
func request(ctx context.Context, s *exchange, p wasm.Permit, _ wire.Ask, parts [][]byte) (wire.Answer, []byte, error) {
	names := s.taken
	s.taken = nil
	var r wasm.HTTPRequest
	d := json.NewDecoder(strings.NewReader(string(parts[0])))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil || d.More() || r.Secrets != nil {
		return wire.Answer{}, nil, malformed("the request is not what docs/skills-abi.md says")
	}
	at, err := hostOf(r.URL)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	if at != withPort(p.Name) {
		return wire.Answer{}, nil, notGranted("the handle is for %s, and the request goes to %s", p.Name, palyra.Clip(at, 200))
	}
	for _, n := range names {
		if !s.mayGoTo(n, at) {
			return wire.Answer{}, nil, notGranted("the secret %s is not for %s", n, p.Name)
		}
	}
	if s.i.Host.Web == nil {
		return wire.Answer{}, nil, notHere("requests")
	}
	r.Secrets = names
	res, err := s.i.Host.Web.Request(ctx, p.Name, r)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	return document(res)
}

// hostOf is the host and port that a request goes to.
func hostOf(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Opaque != "" {
		return "", malformed("the request has no proper URL")
	}
	port := u.Port()
	switch {
	case u.Scheme == "https":
		port = cmp.Or(port, "443")
	case u.Scheme == "http":
		port = cmp.Or(port, "80")
	default:
		return "", malformed("a request goes to http or https")
	}
	return strings.ToLower(u.Hostname()) + ":" + port, nil
}

// withPort is the name of a permit with its port.
func withPort(host string) string {
	if host = strings.ToLower(host); !strings.Contains(host, ":") {
		host += ":443"
	}
	return host
}

// mayGoTo reports whether a secret was granted for a host.
func (s *exchange) mayGoTo(name, at string) bool {
	return slices.ContainsFunc(s.i.Grants.Secrets, func(g wasm.SecretGrant) bool {
		return g.Name == name && slices.ContainsFunc(g.Hosts, func(h string) bool { return withPort(h) == at })
	})
}

// maxTaken is the most secrets of one request.
const maxTaken = 8

// useSecret takes a secret for the next request, and answers with what stands for it there.
func useSecret(_ context.Context, s *exchange, p wasm.Permit, _ wire.Ask, _ [][]byte) (wire.Answer, []byte, error) {
	if !slices.Contains(s.taken, p.Name) {
		if len(s.taken) >= maxTaken {
			return wire.Answer{}, nil, malformed("more than %d secrets for one request", maxTaken)
		}
		s.taken = append(s.taken, p.Name)
	}
	return bytes([]byte("{{" + p.Name + "}}"))
}

// maxKey is the longest key, with its prefix.
const maxKey = 512

// keyOf is the whole key of one below a permit's prefix.
func (s *exchange) keyOf(p wasm.Permit, key []byte, empty bool) (string, error) {
	switch {
	case s.i.Host.Keys == nil:
		return "", notHere("storage")
	case (len(key) == 0 && !empty) || len(p.Name)+len(key) > maxKey || !utf8.Valid(key) || slices.Contains(key, 0):
		return "", malformed("a key is text of at most %d bytes with its prefix", maxKey)
	}
	return p.Name + string(key), nil
}

func kvGet(ctx context.Context, s *exchange, p wasm.Permit, _ wire.Ask, parts [][]byte) (wire.Answer, []byte, error) {
	k, err := s.keyOf(p, parts[0], false)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	v, err := s.i.Host.Keys.Get(ctx, p.Name, k)
	if v == nil && err == nil {
		return wire.Answer{Code: codeNothing}, nil, nil
	}
	if err != nil {
		return wire.Answer{}, nil, err
	}
	return bytes(v)
}

func kvPut(ctx context.Context, s *exchange, p wasm.Permit, _ wire.Ask, parts [][]byte) (wire.Answer, []byte, error) {
	k, err := s.keyOf(p, parts[0], false)
	if err == nil {
		err = s.i.Host.Keys.Put(ctx, p.Name, k, parts[1])
	}
	return wire.Answer{}, nil, err
}

func kvDelete(ctx context.Context, s *exchange, p wasm.Permit, _ wire.Ask, parts [][]byte) (wire.Answer, []byte, error) {
	k, err := s.keyOf(p, parts[0], false)
	if err == nil {
		err = s.i.Host.Keys.Delete(ctx, p.Name, k)
	}
	return wire.Answer{}, nil, err
}

// maxList is the most keys of one answer.
const maxList = 1000

// kvList lists keys below the prefix, which it takes off.
func kvList(ctx context.Context, s *exchange, p wasm.Permit, ask wire.Ask, parts [][]byte) (wire.Answer, []byte, error) {
	start, err := s.keyOf(p, parts[0], true)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	after, err := s.keyOf(p, parts[1], true)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	if len(parts[1]) == 0 {
		after = ""
	}
	n := int(ask.Number)
	if n <= 0 || n > maxList {
		n = maxList
	}
	keys, err := s.i.Host.Keys.List(ctx, p.Name, start, after, n)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	out := make([]string, 0, len(keys))
	for _, k := range keys {
		if rest, ok := strings.CutPrefix(k, p.Name); ok {
			out = append(out, rest)
		}
	}
	return document(out)
}

// namesBindings reports whether arguments of palyra.http.fetch name secrets, which no permit for the tool is one for.
func namesBindings(arguments []byte) bool {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(arguments, &members) // what is no object, the tool refuses
	for name := range members {
		if strings.EqualFold(name, "bindings") {
			return true
		}
	}
	return false
}

func toolCall(ctx context.Context, s *exchange, p wasm.Permit, _ wire.Ask, parts [][]byte) (wire.Answer, []byte, error) {
	switch {
	case !json.Valid(parts[0]):
		return wire.Answer{}, nil, malformed("the tool's arguments are not JSON")
	case p.Name == string(palyra.ToolFetch) && namesBindings(parts[0]):
		return wire.Answer{}, nil, notGranted("a secret goes out by secret_use and http_request, where it was granted, and not by tool_call")
	case s.i.Host.Tools == nil:
		return wire.Answer{}, nil, notHere("calls of tools")
	}
	out, err := s.i.Host.Tools.Invoke(ctx, p.Name, slices.Clone(parts[0]))
	if err != nil {
		return wire.Answer{}, nil, err
	}
	return bytes(out)
}

// clock is the time of day, in nanoseconds, as fine as WASI's.
func clock(context.Context, *exchange, wasm.Permit, wire.Ask, [][]byte) (wire.Answer, []byte, error) {
	return wire.Answer{Number: time.Now().Truncate(time.Millisecond).UnixNano()}, nil, nil
}

// maxRandom is the most bytes of one answer.
const maxRandom = 64 << 10

func random(_ context.Context, _ *exchange, _ wasm.Permit, ask wire.Ask, _ [][]byte) (wire.Answer, []byte, error) {
	if ask.Number < 0 || ask.Number > maxRandom {
		return wire.Answer{}, nil, malformed("more than %d bytes of randomness", maxRandom)
	}
	b := make([]byte, ask.Number)
	_, _ = rand.Read(b) // never fails
	return bytes(b)
}

// levels of log lines.
var levels = []string{"debug", "info", "warn", "error"}

// maxLine is the longest line.
const maxLine = 4 << 10

func logLine(ctx context.Context, s *exchange, _ wasm.Permit, ask wire.Ask, parts [][]byte) (wire.Answer, []byte, error) {
	if ask.Number < 0 || ask.Number >= int64(len(levels)) {
		return wire.Answer{}, nil, malformed("a level is a number from 0 to %d", len(levels)-1)
	}
	line := levels[ask.Number] + ": " + palyra.Clip(string(parts[0]), maxLine) + "\n"
	if int64(len(s.lines)+len(line)) <= s.i.Limits.Logs {
		s.lines = append(s.lines, line...)
	} else {
		s.res.Cut = true
	}
	if s.i.Host.Log != nil {
		s.i.Host.Log(ctx, levels[ask.Number], palyra.Clip(string(parts[0]), maxLine))
	}
	return wire.Answer{}, nil, nil
}
