package lend

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"palyra"
	"palyra/secrets"
)

// maxBody is the longest body in which a field is looked for. In a longer one the placeholder stays.
const maxBody = 1 << 20

// substitute puts values into a request for at, in the places of their bindings, and reports where placeholders stood.
func (d *Desk) substitute(r *http.Request, at string) (u Use, err error) {
	for _, l := range d.at(at) {
		var done bool
		switch l.Kind {
		case secrets.Header, secrets.Upstream:
			done, err = inHeader(r, l)
		case secrets.Basic, secrets.Git:
			done, err = inBasic(r, l)
		case secrets.Query:
			done, err = inQuery(r, l)
		case secrets.Body:
			done, err = inBody(r, l)
		case secrets.WebSocket, secrets.SigV4, secrets.Provider: // later: see firstMessage; before: see sign; in the daemon
		}
		if err != nil {
			return u, err
		}
		if done {
			u.used(l.Name)
		}
	}
	for _, l := range d.loans {
		if inHead(r, l.Placeholder) {
			u.stray(l.Name)
		}
	}
	return u, nil
}

// unfit is the refusal of a value that the place cannot hold.
func unfit(l secrets.Loan) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the secret of the binding %s does not fit into a %s: it has "+
		"characters that do not belong there", l.Name, l.Kind).WithRemedy("put it without line ends: palyra vault put %s", l.Secret)
}

// text calls f with the value as text that fits into a line.
func text(l secrets.Loan, f func(string) error) error {
	return l.Value.Use(func(b []byte) error {
		if bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return unfit(l)
		}
		return f(string(b))
	})
}

func inHeader(r *http.Request, l secrets.Loan) (done bool, err error) {
	for i, v := range r.Header[l.Place] {
		word, rest, after := strings.Cut(v, " ")
		if !after {
			word, rest = "", v
		}
		if rest != l.Placeholder || done { // as a whole, or after one word, and once
			continue
		}
		err = text(l, func(value string) error {
			r.Header[l.Place][i] = strings.TrimPrefix(word+" "+value, " ")
			return nil
		})
		if err != nil {
			return false, err
		}
		done = true
	}
	return done, nil
}

const basic = "basic "

// inBasic puts the value in for the user or the password of Basic authorization.
func inBasic(r *http.Request, l secrets.Loan) (done bool, err error) {
	for i, v := range r.Header["Authorization"] {
		user, password, ok := parseBasic(v)
		if !ok || user != l.Placeholder && password != l.Placeholder {
			continue
		}
		err = text(l, func(value string) error {
			if user == l.Placeholder {
				if strings.Contains(value, ":") {
					return unfit(l)
				}
				user = value
			}
			if password == l.Placeholder {
				password = value
			}
			r.Header["Authorization"][i] = "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
			return nil
		})
		if err != nil {
			return false, err
		}
		done = true
	}
	return done, nil
}

func parseBasic(v string) (user, password string, ok bool) {
	if len(v) < len(basic) || !strings.EqualFold(v[:len(basic)], basic) {
		return "", "", false
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(v[len(basic):]))
	if err != nil {
		return "", "", false
	}
	return strings.Cut(string(raw), ":")
}

// inQuery puts the value in for a parameter. The others stay as they were written.
func inQuery(r *http.Request, l secrets.Loan) (done bool, err error) {
	parts := strings.Split(r.URL.RawQuery, "&")
	for i, part := range parts {
		name, v, _ := strings.Cut(part, "=")
		key, e1 := url.QueryUnescape(name)
		got, e2 := url.QueryUnescape(v)
		if e1 != nil || e2 != nil || key != l.Place || got != l.Placeholder {
			continue
		}
		_ = l.Value.Use(func(b []byte) error {
			parts[i] = name + "=" + url.QueryEscape(string(b))
			return nil
		})
		done = true
	}
	if done {
		r.URL.RawQuery = strings.Join(parts, "&")
	}
	return done, nil
}

// inBody puts the value in for a field of a JSON object or of a form.
func inBody(r *http.Request, l secrets.Loan) (done bool, err error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	isJSON := kind == "application/json" || strings.HasSuffix(kind, "+json")
	if r.Body == nil || r.ContentLength > maxBody || r.Header.Get("Content-Encoding") != "" ||
		!isJSON && kind != "application/x-www-form-urlencoded" {
		return false, nil
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return false, err
	}
	if len(raw) > maxBody {
		r.Body = both{io.MultiReader(bytes.NewReader(raw), r.Body), r.Body}
		return false, nil
	}
	_ = r.Body.Close()
	out := raw
	if bytes.Contains(raw, []byte(l.Placeholder)) {
		if isJSON {
			out, done, err = inJSON(raw, l)
		} else {
			out, done = inForm(raw, l)
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(out)), int64(len(out))
	if r.Header.Get("Content-Length") != "" {
		r.Header.Del("Content-Length") // net/http writes the one above
	}
	return done, err
}

// both reads from one and closes the other.
type both struct {
	io.Reader
	io.Closer
}

func inForm(raw []byte, l secrets.Loan) ([]byte, bool) {
	r := &http.Request{URL: &url.URL{RawQuery: string(raw)}}
	done, _ := inQuery(r, l)
	return []byte(r.URL.RawQuery), done
}

// inJSON replaces the string at a field: a dotted path from the outermost object. What is around it stays byte for byte.
func inJSON(raw []byte, l secrets.Loan) (out []byte, done bool, err error) {
	from, to, ok := fieldAt(raw, strings.Split(l.Place, "."))
	if !ok {
		return raw, false, nil
	}
	var got string
	if json.Unmarshal(raw[from:to], &got) != nil || got != l.Placeholder {
		return raw, false, nil
	}
	err = l.Value.Use(func(b []byte) error {
		quoted, err := json.Marshal(string(b))
		if err != nil || !json.Valid(quoted) {
			return errors.Join(unfit(l), err)
		}
		out = bytes.Join([][]byte{raw[:from], quoted, raw[to:]}, nil)
		return nil
	})
	return out, err == nil, err
}

// fieldAt finds the value at a path of fields: its first byte, and the one after its last.
func fieldAt(raw []byte, path []string) (from, to int, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	for {
		if t, err := dec.Token(); err != nil || t != json.Delim('{') {
			return 0, 0, false
		}
		for {
			name, err := dec.Token()
			if err != nil || name == json.Delim('}') {
				return 0, 0, false
			}
			if name == path[0] {
				break
			}
			var skipped json.RawMessage
			if dec.Decode(&skipped) != nil {
				return 0, 0, false
			}
		}
		if path = path[1:]; len(path) == 0 {
			var v json.RawMessage
			if dec.Decode(&v) != nil {
				return 0, 0, false
			}
			to = int(dec.InputOffset())
			return to - len(v), to, true
		}
	}
}

// escaped is a byte as a URL writes it.
var escaped = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// inHead reports whether a text stands anywhere in a request's head.
func inHead(r *http.Request, what string) bool {
	query := escaped.ReplaceAllStringFunc(r.URL.RawQuery, func(s string) string {
		plain, _ := url.QueryUnescape(s) // which cannot fail
		return plain
	})
	if strings.Contains(r.URL.Path, what) || strings.Contains(query, what) || strings.Contains(r.Host, what) {
		return true
	}
	for name, values := range r.Header {
		for _, v := range values {
			user, password, _ := parseBasic(v)
			if strings.Contains(v, what) || strings.Contains(name, what) || strings.Contains(user, what) || strings.Contains(password, what) {
				return true
			}
		}
	}
	return false
}
