package fetch

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"

	"palyra"
	"palyra/internal/tool"
)

// arguments of a call, as the schema has them. Pointers tell "not given" from empty.
type arguments struct {
	URL        string            `json:"url"`
	Method     string            `json:"method"`
	Headers    map[string]string `json:"headers"`
	Body       *string           `json:"body"`
	BodyB64    *string           `json:"body_b64"`
	MaxBytes   *int64            `json:"max_bytes"`
	Follow     *int              `json:"follow"`
	RedirectTo []string          `json:"redirect_to"`
	TimeoutMS  *int64            `json:"timeout_ms"`
	Bindings   []string          `json:"bindings"`
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// request is a call's checked arguments.
type request struct {
	first   target
	method  string
	header  http.Header
	body    []byte
	text    bool // the body was given as text
	most    int64
	follow  int
	targets []string // hosts that may be reached, sorted
}

// decode reads and checks a plan's arguments. The catalog has checked them
// against the schema; the bounds are checked again here.
func (c Config) decode(p palyra.Plan) (request, arguments, error) {
	var a arguments
	if err := tool.Arguments(p, &a); err != nil {
		return request{}, a, err
	}
	r := request{method: a.Method, most: defAnswer, follow: defFollow}
	r.method = cmp.Or(r.method, http.MethodGet)
	if !slices.Contains(methods, r.method) {
		return r, a, malformed("there is no method %q here", palyra.Clip(a.Method, 32))
	}
	var err error
	if r.first, err = c.target(a.URL); err != nil {
		return r, a, err
	}
	if r.header, err = headers(a.Headers, a.Bindings); err != nil {
		return r, a, err
	}
	if err := r.take(a); err != nil {
		return r, a, err
	}
	r.targets, err = c.allTargets(a.RedirectTo, r.first.hostPort)
	return r, a, err
}

// take checks the body and the numbers.
func (r *request) take(a arguments) (err error) {
	switch {
	case a.Body != nil && a.BodyB64 != nil:
		return malformed("give one of body and body_b64")
	case a.Body != nil:
		r.body, r.text = []byte(*a.Body), true
	case a.BodyB64 != nil:
		if r.body, err = base64.StdEncoding.Strict().DecodeString(*a.BodyB64); err != nil {
			return malformed("body_b64 is not base64").WithRemedy("use the standard alphabet, with padding").WithCause(err)
		}
	}
	if len(r.body) > maxBody {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonInputTooLarge, "the body has %d bytes", len(r.body)).
			WithRemedy("send at most %d", maxBody)
	}
	if (a.Body != nil || a.BodyB64 != nil) && (r.method == http.MethodGet || r.method == http.MethodHead) {
		return malformed("%s has no body", r.method).WithRemedy("leave the body out, or use POST")
	}
	if a.MaxBytes != nil {
		r.most = *a.MaxBytes
	}
	if r.most < 0 || r.most > maxAnswer {
		return malformed("max_bytes is from 0 to %d", maxAnswer)
	}
	if a.Follow != nil {
		r.follow = *a.Follow
	}
	if r.follow < 0 || r.follow > maxFollow {
		return malformed("follow is from 0 to %d", maxFollow)
	}
	return nil
}

// wall is the call's time limit: the one that the caller asks for, at most the limit of calls.
func (a arguments) wall(most int64) (int64, error) {
	switch {
	case a.TimeoutMS == nil && most > 0:
		return min(most, defWallMS), nil
	case a.TimeoutMS == nil:
		return defWallMS, nil
	case *a.TimeoutMS <= 0:
		return 0, malformed("timeout_ms must be more than nothing")
	case most > 0 && *a.TimeoutMS > most:
		return 0, malformed("timeout_ms is over the limit of a call").WithRemedy("give at most %d, or leave it out", most)
	}
	return *a.TimeoutMS, nil
}
