package fetch

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"palyra"
)

// to redirects by status to a place.
func to(status int, place string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Location", place)
		rw.WriteHeader(status)
	}
}

// What becomes of the method and the body, as RFC 9110, 15.4 has it.
func TestRedirectedMethods(t *testing.T) {
	w := newWorld(t)
	var status int
	w.serve("a.test:80", false, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			to(status, "there")(rw, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		rw.Header().Set("X-Was", r.Method+" "+string(body)+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("X-Mine"))
	})
	for _, c := range []struct {
		method string
		status int
		want   string
	}{
		{"GET", 301, "GET   m"},
		{"HEAD", 303, "HEAD   m"},
		{"HEAD", 302, "HEAD   m"},
		{"POST", 301, "GET   m"},
		{"POST", 302, "GET   m"},
		{"POST", 303, "GET   m"},
		{"POST", 307, "POST b c/d m"},
		{"POST", 308, "POST b c/d m"},
		{"PUT", 301, "PUT b c/d m"},
		{"PUT", 303, "GET   m"},
		{"DELETE", 302, "DELETE b c/d m"},
		{"OPTIONS", 308, "OPTIONS b c/d m"},
	} {
		status = c.status
		a := args{"url": "http://a.test/", "method": c.method, "headers": args{"x-mine": "m"}}
		if c.method != "GET" && c.method != "HEAD" {
			a["body"], a["headers"] = "b", args{"content-type": "c/d", "x-mine": "m"}
		}
		if r := w.must(a); r.Headers["X-Was"] != c.want || !slices.Equal(r.Redirects, []string{"http://a.test/there"}) {
			t.Errorf("%s %d: %q %v", c.method, c.status, r.Headers["X-Was"], r.Redirects)
		}
	}
}

func TestRedirectsThatAreNone(t *testing.T) {
	w := newWorld(t)
	for at, h := range map[string]http.HandlerFunc{
		"choice.test:80": to(300, "/x"), "same.test:80": to(304, "/x"), "proxy.test:80": to(305, "/x"), "nowhere.test:80": to(302, ""),
		"ok.test:80": to(200, "/x"), "made.test:80": to(201, "/x"),
	} {
		w.serve(at, false, h)
		if r := w.must(args{"url": "http://" + at + "/"}); len(r.Redirects) != 0 || len(w.dialed) != 1 {
			t.Errorf("%s: %+v", at, r)
		}
		w.dialed = nil
	}
	w.serve("a.test:80", false, to(302, "http://b.test/"))
	if r := w.must(args{"url": "http://a.test/", "follow": 0}); r.Status != 302 || r.Headers["Location"] != "http://b.test/" {
		t.Errorf("%+v", r)
	}
}

func TestRedirectLoops(t *testing.T) {
	w := newWorld(t)
	n := 0
	w.serve("a.test:80", false, func(rw http.ResponseWriter, r *http.Request) {
		n++
		to(302, "/")(rw, r)
	})
	for follow, want := range map[int]int{1: 2, 3: 4, maxFollow: maxFollow + 1} {
		n = 0
		w.refused(reasonFailed, fmt.Sprintf("more than %d times", follow), args{"url": "http://a.test/", "follow": follow})
		if n != want {
			t.Errorf("follow %d: %d requests", follow, n)
		}
	}
	n = 0
	w.refused(reasonFailed, "more than 5 times", args{"url": "http://a.test/"})
}

// A redirect leads only where the plan allows, and says where it would have led.
func TestRedirectsToOtherHosts(t *testing.T) {
	w := newWorld(t)
	reached := func(http.ResponseWriter, *http.Request) { t.Error("reached") }
	w.serve("b.test:80", false, reached)
	w.serve("a.test:8080", false, reached)
	w.serve("127.0.0.1:80", false, reached)
	for place, says := range map[string]string{
		"http://b.test/x?y":                       "call again with url \"http://b.test/x?y\"",
		"//b.test/":                               "redirects to b.test:80, which the call does not name",
		"http://a.test:8080/":                     "a.test:8080",
		"https://a.test/":                         "a.test:443",
		"http://127.0.0.1/":                       "127.0.0.1:80",
		"http://169.254.169.254/latest/meta-data": "169.254.169.254:80",
		"http://B.TEST./":                         "b.test:80",
	} {
		w.serve("a.test:80", false, to(302, place))
		w.flows = nil
		w.refused(palyra.ReasonEgressDenied, says, args{"url": "http://a.test/"})
		last := w.flows[0]
		if last.Verdict != "deny" || last.Door != "fetch" || last.Port == 0 || !strings.Contains(strings.ToLower(place), last.Host) {
			t.Errorf("%s: flows %+v", place, w.flows)
		}
	}
	for _, d := range w.dialed {
		if d != "a.test:80" {
			t.Errorf("dialled %s", d)
		}
	}
}

func TestRedirectsToNonsense(t *testing.T) {
	w := newWorld(t)
	for _, place := range []string{
		"ftp://a.test/", "file:///etc/passwd", "javascript:alert(1)", "http://u:p@a.test/", "http://", "http://a.test:0/",
		"http://a.test:99999/", "http://[::1/", "http://2130706433/", "http://0x7f.1/",
		"http://[fe80::1%25eth0]/", "http://[::ffff:127.0.0.1]/", "http://a.test:/", "http://é.test/", `http://a.test\@b.test/`,
		"http://a..test/", "%zz://x",
		"http://a.test/" + strings.Repeat("x", maxURL),
	} {
		w.serve("a.test:80", false, to(302, place))
		_, err := w.fetch(args{"url": "http://a.test/"})
		e := palyra.AsError(err)
		if err == nil || e.Reason != reasonFailed || len(e.Text) > 1000 || !strings.Contains(e.Text, "redirects to") {
			t.Errorf("%.80s: %v", place, err)
		}
	}
	for _, d := range w.dialed {
		if d != "a.test:80" {
			t.Errorf("dialled %s", d)
		}
	}
}

// What a call says to one origin it does not say to another.
func TestOtherOrigins(t *testing.T) {
	w := newWorld(t)
	w.serve("b.test:80", false, func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rw.Header().Set("X-Was", fmt.Sprint(r.Method, " ", r.Header["X-Mine"], r.Header["Accept"], r.Header["User-Agent"], " ", string(body)))
	})
	status := 302
	w.serve("a.test:80", false, func(rw http.ResponseWriter, r *http.Request) { to(status, "http://b.test/")(rw, r) })
	a := args{
		"url": "http://a.test/", "redirect_to": []string{"B.test:80", "b.test:80"}, "method": "POST", "body": "private",
		"headers": args{"x-mine": "m", "accept": "x/y"},
	}
	if r := w.must(a); r.Headers["X-Was"] != "GET [] [x/y] [palyra]" || r.URL != "http://b.test/" {
		t.Errorf("%q", r.Headers["X-Was"])
	}
	p, err := w.plan(Name, a)
	if err != nil || !slices.Equal(p.Egress, []string{"a.test:80", "b.test:80"}) {
		t.Errorf("%q %v", p.Egress, err)
	}
	status = 307
	w.dialed = nil
	w.refused(palyra.ReasonEgressDenied, "with its body", a)
	if !slices.Equal(w.dialed, []string{"a.test:80"}) {
		t.Errorf("dialled %q", w.dialed)
	}
}

// From https nothing leads to http, not even where the plan names the host.
func TestNoWayBackToClear(t *testing.T) {
	w := newWorld(t)
	w.serve("example.com:80", false, func(http.ResponseWriter, *http.Request) { t.Error("reached") })
	w.serve("example.com:443", true, to(301, "http://example.com/"))
	w.refused(palyra.ReasonEgressDenied, "https to http", args{"url": "https://example.com/", "redirect_to": []string{"example.com:80"}})
	w.serve("example.com:443", true, func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "safe") })
	w.serve("example.com:80", false, to(301, "https://example.com/"))
	if r := w.must(args{"url": "http://example.com/", "redirect_to": []string{"example.com:443"}}); r.text() != "safe" {
		t.Errorf("%+v", r)
	}
}
