package egress

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"palyra"
)

// A run that makes names up below a granted suffix gets so many of them out and
// no more, by whichever door; the rest are not even looked up.
func TestNamesBelowASuffixAreCounted(t *testing.T) {
	g, w := newGuard(t, Config{MaxWildcard: 4})
	b := open(t, g, w, "*.good.example:443", "*.other.example:443", "own.good.example:443")
	out, last := 0, error(nil)
	for i := range 200 {
		name := fmt.Sprintf("%s%03d.good.example", strings.Repeat("x", 56), i)
		w.name(name, "127.0.0.1")
		var err error
		switch i % 3 {
		case 0:
			_, err = b.DialContext(t.Context(), "tcp", name+":443")
		case 1:
			_, code, body := b.connectTo(name + ":443")
			if code == http.StatusForbidden {
				err = palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s", body)
			}
		default:
			if _, code := b.socksTo(named(name, 443)); code == socksForbidden {
				err = palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "socks")
			}
		}
		if palyra.AsError(err).Code == palyra.Denied {
			last = err
		} else {
			out++
		}
	}
	lookups, _ := w.seen()
	if out != 4 || len(lookups) > 4 {
		t.Errorf("%d names were let through, %d looked up", out, len(lookups))
	}
	if last == nil {
		t.Fatal("nothing was refused")
	}
	_, err := b.DialContext(t.Context(), "tcp", "one.more.good.example:443")
	if e := palyra.AsError(err); e.Reason != palyra.ReasonEgressDenied || !strings.Contains(e.Text, "*.good.example:443") ||
		!strings.Contains(e.Remedy, "egress.wildcard_names") {
		t.Errorf("%+v", e)
	}
	b.flow("one.more.good.example", palyra.FlowDenied)
	// What is named itself is not counted, another suffix is by itself, and a name
	// that was let through before stays so.
	for _, name := range []string{"own.good.example", "a.other.example", strings.Repeat("x", 56) + "000.good.example"} {
		w.name(name, "127.0.0.1")
		if _, err := b.DialContext(t.Context(), "tcp", name+":443"); palyra.AsError(err).Code == palyra.Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Methods that give a request back are passed on to nobody.
func TestEchoingMethods(t *testing.T) {
	g, w := newGuard(t, Config{})
	srv, _ := site(t)
	w.at(80, srv.Listener.Addr())
	b := open(t, g, w, "good.example:80")
	for _, method := range []string{"TRACE", "trace", "Track", "DEBUG", "connect", "Connect"} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://good.example/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := b.client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if want := map[bool]int{true: http.StatusBadRequest, false: http.StatusForbidden}[strings.EqualFold(method,
			"connect")]; res.StatusCode != want {
			t.Errorf("%s: %d %s", method, res.StatusCode, body)
		}
	}
	b.untouched()
	for _, method := range []string{"OPTIONS", "PROPFIND", "PATCH"} {
		req, _ := http.NewRequestWithContext(t.Context(), method, "http://good.example/x", nil)
		res, err := b.client().Do(req)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%s: %+v, %v", method, res, err)
		}
		if err == nil {
			_ = res.Body.Close()
		}
	}
}
