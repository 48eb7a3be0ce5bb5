package lend

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"palyra/secrets"
)

// Requests of the daemon's own have values at their hosts, over TLS, in their places; elsewhere placeholders stay, and are
// told.
func TestDirect(t *testing.T) {
	const at = "api.example.com:443"
	header, field := loan("h", secrets.Upstream, "Authorization", at), loan("f", secrets.Body, "token", at)
	d := Direct([]secrets.Loan{header, field})
	defer d.Close()
	request := func(url, body string) *http.Request {
		r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		return r
	}
	r := request("https://api.example.com/", `{"token":"{{f}}","other":"{{h}}"}`)
	u, err := d.Fill(r, at)
	body, _ := io.ReadAll(r.Body)
	if err != nil || r.Header.Get("Authorization") != "Bearer "+value || !strings.HasSuffix(string(body), `,"other":"{{h}}"}`) ||
		!slices.Equal(u.Used, []string{"h", "f"}) || !slices.Equal(u.Stray, []string{"h"}) || r.ContentLength != int64(len(body)) {
		t.Errorf("%+v %v: %v %s", u, err, r.Header, body)
	}
	r = request("https://other.example.com/", `{"token":"{{f}}"}`)
	u, err = d.Fill(r, "other.example.com:443")
	if err != nil || r.Header.Get("Authorization") != "" || len(u.Used) > 0 || !slices.Equal(u.Stray, []string{"f"}) {
		t.Errorf("another host: %+v %v %v", u, err, r.Header)
	}
	r = request("http://api.example.com:443/", "")
	if u, err = d.Fill(r, at); err == nil || len(u.Used) > 0 || strings.Contains(r.Header.Get("Authorization"), value) {
		t.Errorf("without TLS: %+v %v %v", u, err, r.Header)
	}
	masked, _ := io.ReadAll(d.Reader(io.NopCloser(strings.NewReader("it is " + value + "."))))
	if strings.Contains(string(masked), value) || strings.Contains(d.Text("x"+value), value) {
		t.Errorf("%s", masked)
	}
}
