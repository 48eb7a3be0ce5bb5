package lend

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"

	"palyra"
	"palyra/secrets"
)

// Named is what stands for the value of a binding in requests that a caller in the daemon itself makes: people and agents
// can write it.
func Named(binding string) string { return "{{" + binding + "}}" }

// Direct returns the desk of a caller in the daemon itself, which speaks to the servers on its own and needs no
// authority. It takes the loans over; what stands for them is Named.
func Direct(loans []secrets.Loan) *Desk {
	for i := range loans {
		loans[i].Placeholder = Named(loans[i].Name)
	}
	return &Desk{loans: loans}
}

// Fill puts values into a request for at, and says what became of the placeholders. A value that goes into a header, and
// that the request has no placeholder for, goes in by itself.
func (d *Desk) Fill(r *http.Request, at string) (u Use, err error) {
	if d == nil {
		return u, nil
	}
	here := d.at(at)
	if len(here) > 0 && r.URL.Scheme != "https" {
		return u, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "a secret is bound to %s, and does not go there without TLS", at).
			WithRemedy("use https")
	}
	for _, l := range here {
		place(r, l)
	}
	if u, err = d.substitute(r, at); err != nil {
		return u, err
	}
	if len(u.Used) > 0 { // an answer in parts could have parts of a value
		r.Header.Del("Range")
		r.Header.Del("If-Range")
	}
	if r.Body == nil || r.Body == http.NoBody {
		return u, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return u, err
	}
	_ = r.Body.Close()
	for _, l := range d.loans {
		if bytes.Contains(body, []byte(l.Placeholder)) {
			u.stray(l.Name)
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return u, nil
}

// place writes the placeholder of a header into a request, unless there is something in its place already.
func place(r *http.Request, l secrets.Loan) {
	name, text := l.Place, l.Placeholder
	switch l.Kind {
	case secrets.Header, secrets.Upstream:
		if name == "Authorization" {
			text = "Bearer " + text
		}
	case secrets.Basic, secrets.Git:
		name, text = "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(l.User+":"+text))
	default:
		return
	}
	if len(r.Header[name]) == 0 {
		r.Header[name] = []string{text}
	}
}

// EncodeBasic encodes Basic authorization that a caller wrote as it is read, with a placeholder: "Basic USER:PLACEHOLDER".
func EncodeBasic(h http.Header) {
	for i, v := range h["Authorization"] {
		if plain, ok := strings.CutPrefix(v, "Basic "); ok && strings.Contains(plain, "{{") && strings.Contains(plain, ":") {
			h["Authorization"][i] = "Basic " + base64.StdEncoding.EncodeToString([]byte(plain))
		}
	}
}

// Text masks the values in a text.
func (d *Desk) Text(s string) string {
	if d == nil {
		return s
	}
	return d.veil().text(s)
}

// Head masks the values in a response's head.
func (d *Desk) Head(h http.Header) {
	if d != nil {
		d.veil().head(h)
	}
}

// Reader masks the values in what is read.
func (d *Desk) Reader(r io.ReadCloser) io.ReadCloser {
	if d == nil {
		return r
	}
	return d.veil().reader(r, -1, func() {})
}

// veil is the forms of all values, made once.
func (d *Desk) veil() masks {
	d.veiled.Do(func() { d.masks = masksOf(d.loans) })
	return d.masks
}

// Bindings are those of the loans.
func (d *Desk) Bindings() (all []secrets.Binding) {
	for _, l := range d.loans {
		all = append(all, l.Binding)
	}
	return slices.Clip(all)
}
