package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"palyra"
)

// Fault is why a model gave no answer, as its server put it.
type Fault struct {
	Status  int           // of HTTP; 0: there was none
	Kind    string        // the server's own word for it
	Message string        // its own words; free of our key
	After   time.Duration // when to ask again, if it said so
	Odd     string        // what is wrong with the answer, if that is it
	Cut     bool          // the answer began and did not end
	Cause   error
}

// Error implements error. The text is for logs.
func (f *Fault) Error() string {
	return fmt.Sprintf("model: status %d %s: %s%s", f.Status, f.Kind, f.Message, f.Odd)
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Cause }

// Cut is the fault of an answer that broke off.
func Cut(cause error) error { return &Fault{Cut: true, Cause: cause} }

// FaultOf reads what a server says of an error: an object, or a text, under "error", or anything else.
func FaultOf(body []byte) *Fault {
	var doc struct {
		Error json.RawMessage `json:"error"`
	}
	var said struct {
		Type    string `json:"type"`
		Code    any    `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return &Fault{Message: oneLineText(string(body))}
	}
	var text string
	switch {
	case json.Unmarshal(doc.Error, &said) == nil && said.Message+said.Type != "":
	case json.Unmarshal(doc.Error, &text) == nil:
		said.Message = text
	default:
		return &Fault{Message: oneLineText(string(body))}
	}
	kind := said.Type
	if code, ok := said.Code.(string); ok && code != "" {
		kind = code
	}
	return &Fault{Kind: palyra.Clip(oneLineText(kind), 64), Message: oneLineText(said.Message)}
}

// oneLineText makes a server's words fit for one line.
func oneLineText(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(palyra.Clip(s, 1200), ""))
	return palyra.Clip(strings.Join(strings.Fields(s), " "), 300)
}

// retryAfter reads when a server wants to be asked again; 0: it did not say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const most = 24 * time.Hour
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, float64(most/time.Millisecond))) * time.Millisecond
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		return time.Duration(min(s, most.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return min(at.Sub(now), most)
	}
	return 0
}

// Source is a provider of models, as the operator configured it.
type Source struct {
	Name    string // in the configuration
	Model   Model
	BaseURL string // for people
	KeyFile string // for people
	// the binding of its key in the vault, for people; empty: there is none
	KeyBinding string
	Allowed    []string      // its models; empty: any
	Timeout    time.Duration // for one answer
}

// tries is how often a model is asked before its fault is the run's.
const tries = 5

// explain puts a fault into words that people can act on, and says how often such a thing is tried in all.
func (s *Source) explain(err error, model string) (*palyra.Error, int) {
	var f *Fault
	if !errors.As(err, &f) {
		return s.unreached(err)
	}
	switch {
	case f.Odd != "":
		return s.fail(palyra.Unavailable, palyra.ReasonModelFailed, "%s: %s%s", s.Name, f.Odd, f.words()).
			WithRemedy("check providers.%s.base_url (%s): it should be the API's address", s.Name, s.BaseURL), 1
	case f.Cut && f.Status == 0 && f.Kind == "":
		return s.broken(f)
	}
	return s.refused(f, model)
}

func (s *Source) fail(code palyra.Code, reason palyra.Reason, format string, args ...any) *palyra.Error {
	return palyra.Errorf(code, reason, format, args...)
}

// words are the server's own, to go behind ours.
func (f *Fault) words() string {
	if f.Message == "" {
		return ""
	}
	return ": " + f.Message
}

// refused is a fault that the server gave a status.
func (s *Source) refused(f *Fault, model string) (*palyra.Error, int) {
	switch status := f.Status; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden || strings.Contains(f.Kind, "authentication"):
		return s.badKey(status), 1
	case status == http.StatusNotFound || f.Kind == "model_not_found" || f.Kind == "not_found_error":
		return s.fail(palyra.NotFound, palyra.ReasonModelNotFound, "%s has no model %q%s", s.Name, model, f.words()).
			WithRemedy("name one it has with --model or models.default (of Ollama: `ollama pull %s`), or check providers.%s.base_url (%s)", model,
				s.Name, s.BaseURL), 1
	case f.aboutContext():
		return s.fail(palyra.Exhausted, palyra.ReasonModelContext, "the conversation is too long for %s%s", model, f.words()).
			WithRemedy("begin another one with --session NAME, or have models.context_bytes lowered"), 1
	case f.Kind == "insufficient_quota" || f.Kind == "billing_error" || status == http.StatusPaymentRequired:
		return s.fail(palyra.Exhausted, palyra.ReasonModelRefused, "%s will not work on this account%s", s.Name, f.words()).
			WithRemedy("look at the account's plan and billing"), 1
	case status == http.StatusTooManyRequests || f.Kind == "rate_limit_error":
		return s.fail(palyra.Exhausted, palyra.ReasonModelOverloaded, "%s was asked too often%s", s.Name, f.words()).WithAfter(f.After).
			WithRemedy("wait a while and run it again"), tries
	case status == 529 || status == http.StatusServiceUnavailable || f.Kind == "overloaded_error":
		return s.fail(palyra.Unavailable, palyra.ReasonModelOverloaded, "%s is overloaded%s", s.Name, f.words()).WithAfter(f.After).
			WithRemedy("wait a while and run it again"), tries
	case status >= 500 || status == http.StatusRequestTimeout || status == 0:
		return s.fail(palyra.Unavailable, palyra.ReasonModelFailed, "%s failed%s%s", s.Name, statusText(status), f.words()).WithAfter(f.After).
			WithRemedy("run it again later"), tries
	case status >= 300 && status < 400:
		return s.fail(palyra.Unavailable, palyra.ReasonModelFailed, "%s sends us elsewhere (HTTP %d); that is not followed", s.Name, status).
			WithRemedy("check providers.%s.base_url (%s): it should be the API's own address", s.Name, s.BaseURL), 1
	}
	return s.fail(palyra.Invalid, palyra.ReasonModelRefused, "%s refused the request%s%s", s.Name, statusText(f.Status), f.words()).
		WithRemedy("check that %q can use tools and stream, and providers.%s in the configuration", model, s.Name), 1
}

func statusText(status int) string {
	if status == 0 {
		return ""
	}
	return fmt.Sprintf(" (HTTP %d)", status)
}

// badKey never repeats what the server said: some repeat the key.
func (s *Source) badKey(status int) *palyra.Error {
	e := s.fail(palyra.Denied, palyra.ReasonModelKey, "%s refused the key%s", s.Name, statusText(status))
	if s.KeyBinding != "" {
		return e.WithRemedy("put a valid key as the secret of the binding %s (see 'palyra vault bindings'); it is read anew each time",
			s.KeyBinding)
	}
	if s.KeyFile == "" {
		return e.WithRemedy("put the key into a file of mode 0600 and name it in providers.%s.key_file", s.Name)
	}
	return e.WithRemedy("put a valid key into %s (providers.%s.key_file); it is read anew each time", s.KeyFile, s.Name)
}

// aboutContext reports whether the server says that the conversation is too long: there is no common word for it.
func (f *Fault) aboutContext() bool {
	if f.Status != http.StatusBadRequest && f.Status != http.StatusRequestEntityTooLarge && f.Status != http.StatusUnprocessableEntity {
		return false
	}
	if f.Status == http.StatusRequestEntityTooLarge || f.Kind == "context_length_exceeded" {
		return true
	}
	said := strings.ToLower(f.Message)
	for _, sign := range []string{"context length", "context window", "too long", "context size", "too many tokens", "maximum context"} {
		if strings.Contains(said, sign) {
			return true
		}
	}
	return false
}

// broken is an answer that did not end.
func (s *Source) broken(f *Fault) (*palyra.Error, int) {
	if e := (*palyra.Error)(nil); errors.As(f.Cause, &e) {
		return e, 1 // it said too much
	}
	why := "broke off in the middle"
	if errors.Is(f.Cause, errIdle) {
		why = "stopped coming"
	}
	return s.fail(palyra.Unavailable, palyra.ReasonModelFailed, "the answer of %s %s", s.Name, why).
		WithRemedy("run it again; the conversation is kept").WithCause(f.Cause), tries
}

// unreached is an error of the way there, or of ours.
func (s *Source) unreached(err error) (*palyra.Error, int) {
	if errors.Is(err, errTurnTime) || errors.Is(err, errIdle) || errors.Is(err, context.DeadlineExceeded) {
		return s.fail(palyra.Expired, palyra.ReasonTimedOut, "%s did not answer within %s", s.Name, s.Timeout).
			WithRemedy("use a faster model, or raise providers.%s.timeout_ms", s.Name).WithCause(err), 2
	}
	var e *palyra.Error
	if errors.As(err, &e) && e.Code != palyra.Unavailable && e.Code != palyra.NotFound {
		return e, 1 // the key's, the guard's or the answer's bounds: they say what to do
	}
	why, times := "the connection broke", tries
	if e != nil {
		why = e.Text
	}
	remedy := fmt.Sprintf("check providers.%s.base_url and that this machine can reach it", s.Name)
	if errors.Is(err, syscall.ECONNREFUSED) {
		why, times = "the connection was refused", 2
		remedy = fmt.Sprintf("is Ollama, or whatever serves models there, running at %s? Start it, or correct providers.%s.base_url",
			s.BaseURL, s.Name)
	}
	return s.fail(palyra.Unavailable, palyra.ReasonModelUnreachable, "%s at %s cannot be reached: %s", s.Name, s.BaseURL, why).
		WithRemedy("%s", remedy).WithCause(err), times
}
