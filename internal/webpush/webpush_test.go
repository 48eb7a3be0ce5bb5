package webpush

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"palyra/internal/webpush/webpushtest"
)

func raw(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The example of RFC 8291, section 5 and appendix A: the same keys, salt and text make the same bytes.
func TestTheExampleOfTheRFC(t *testing.T) {
	own, err := ecdh.P256().NewPrivateKey(raw(t, "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
	if err != nil {
		t.Fatal(err)
	}
	s := Subscription{
		Key:  raw(t, "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"),
		Auth: raw(t, "BTBZMqHH6r4Tts7J_aSIgg"),
	}
	const text = "When I grow up, I want to be a watermelon"
	got, err := s.seal(append([]byte(text), 2), own, raw(t, "DGv6ra1nlYgDCS1FRnbzlw"))
	if err != nil {
		t.Fatal(err)
	}
	want := raw(t, "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95"+
		"bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN")
	if !bytes.Equal(got, want) {
		t.Errorf("%x\nwant %x", got, want)
	}
	theirs, err := ecdh.P256().NewPrivateKey(raw(t, "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"))
	if err != nil {
		t.Fatal(err)
	}
	back, err := (webpushtest.Browser{Key: theirs, Auth: s.Auth}).Open(want)
	if err != nil || string(back) != text {
		t.Errorf("%q %v", back, err)
	}
}

// Every message is of one length and like no other; only the browser that it is for can read it.
func TestSealed(t *testing.T) {
	b, other := webpushtest.New(t), webpushtest.New(t)
	s := Subscription{Key: b.Key.PublicKey().Bytes(), Auth: b.Auth}
	seen := map[string]bool{}
	for _, text := range []string{"", "x", strings.Repeat("y", MaxText)} {
		for range 2 {
			got, err := s.Seal([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if want := saltSize + 4 + 1 + KeySize + MaxText + 1 + 16; len(got) != want || seen[string(got)] {
				t.Errorf("%d bytes, want %d; the same again: %v", len(got), want, seen[string(got)])
			}
			seen[string(got)] = true
			if back, err := b.Open(got); err != nil || string(back) != text {
				t.Errorf("%q %v", back, err)
			}
			if _, err := other.Open(got); err == nil {
				t.Error("another browser reads it")
			}
		}
	}
	if _, err := s.Seal(make([]byte, MaxText+1)); err == nil {
		t.Error("a longer one is sent")
	}
}

func TestBadSubscriptions(t *testing.T) {
	b := webpushtest.New(t)
	good := Subscription{Endpoint: "https://push.example/p/1", Key: b.Key.PublicKey().Bytes(), Auth: b.Auth}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Subscription){
		"plain HTTP":        func(s *Subscription) { s.Endpoint = "http://push.example/p" },
		"another scheme":    func(s *Subscription) { s.Endpoint = "file:///etc/passwd" },
		"nothing":           func(s *Subscription) { s.Endpoint = "" },
		"no host":           func(s *Subscription) { s.Endpoint = "https:///p" },
		"opaque":            func(s *Subscription) { s.Endpoint = "https:push.example" },
		"a user":            func(s *Subscription) { s.Endpoint = "https://a:b@push.example/p" },
		"a fragment":        func(s *Subscription) { s.Endpoint = "https://push.example/p#x" },
		"a line end":        func(s *Subscription) { s.Endpoint = "https://push.example/p\r\nX: y" },
		"capital letters":   func(s *Subscription) { s.Endpoint = "https://Push.example/p" },
		"too long":          func(s *Subscription) { s.Endpoint += strings.Repeat("x", MaxEndpoint) },
		"no key":            func(s *Subscription) { s.Key = nil },
		"a short key":       func(s *Subscription) { s.Key = s.Key[:64] },
		"a point elsewhere": func(s *Subscription) { s.Key = bytes.Clone(s.Key); s.Key[40] ^= 1 },
		"no secret":         func(s *Subscription) { s.Auth = nil },
		"a long secret":     func(s *Subscription) { s.Auth = make([]byte, 17) },
	} {
		s := good
		change(&s)
		if err := s.Check(); err == nil {
			t.Errorf("%s is taken", name)
		} else if s.Endpoint != "" && strings.Contains(err.Error(), s.Endpoint) {
			t.Errorf("%s: the error names the endpoint: %v", name, err)
		}
	}
}

func FuzzSubscription(f *testing.F) {
	f.Add("https://push.example/p", []byte{4}, []byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, endpoint string, key, auth []byte) {
		s := Subscription{endpoint, key, auth}
		if s.Check() != nil {
			return
		}
		u, err := s.Origin()
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
			t.Errorf("%v %v", u, err)
		}
		if _, err := s.Seal([]byte("x")); err != nil {
			t.Error(err)
		}
	})
}

// A real server gets what RFC 8030, 8291 and 8292 say; what it refuses is told, without the endpoint.
func TestSend(t *testing.T) {
	b, now := webpushtest.New(t), time.Now()
	text, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseKey(text, "mailto:me@example.com")
	if err != nil {
		t.Fatal(err)
	}
	answer, after := http.StatusCreated, ""
	var got *http.Request
	var body []byte
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Retry-After", after)
		w.WriteHeader(answer)
		_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20)) // more than anybody reads
	}))
	defer server.Close()
	to := Subscription{Endpoint: server.URL + "/secret-path", Key: b.Key.PublicKey().Bytes(), Auth: b.Auth}
	m := Message{Text: []byte("hello"), Keep: time.Minute, Topic: "palyra"}
	if err := Send(t.Context(), server.Client(), key, to, m, now); err != nil {
		t.Fatal(err)
	}
	if back, err := b.Open(body); err != nil || string(back) != "hello" || got.Method != http.MethodPost || got.URL.Path != "/secret-path" {
		t.Errorf("%q %v %s %s", back, err, got.Method, got.URL.Path)
	}
	for name, want := range map[string]string{"Ttl": "60", "Urgency": "high", "Topic": "palyra", "Content-Encoding": "aes128gcm"} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q", name, got.Header.Get(name))
		}
	}
	claims, err := webpushtest.Claims(got.Header.Get("Authorization"), key.Public())
	if err != nil || claims.Audience != server.URL || claims.Subject != "mailto:me@example.com" ||
		time.Unix(claims.Expires, 0).Sub(now).Abs() > 24*time.Hour || claims.Expires <= now.Unix() {
		t.Errorf("%+v %v", claims, err)
	}
	for _, c := range []struct {
		status int
		after  string
		gone   bool
		wait   time.Duration
	}{
		{404, "", true, 0},
		{410, "", true, 0},
		{429, "120", false, 2 * time.Minute},
		{503, "99999999", false, maxAfter},
		{503, now.Add(time.Minute).UTC().Format(http.TimeFormat), false, time.Minute},
		{500, "-5", false, 0},
		{301, "", false, 0},
		{403, "x", false, 0},
	} {
		answer, after = c.status, c.after
		err := Send(t.Context(), server.Client(), key, to, m, now)
		e := (*RefusedError)(nil)
		if !errors.As(err, &e) || e.Status != c.status || e.Gone() != c.gone || (e.After-c.wait).Abs() > time.Second ||
			strings.Contains(err.Error(), "secret-path") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	server.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := Send(ctx, server.Client(), key, to, m, now); err == nil || strings.Contains(err.Error(), "secret-path") {
		t.Errorf("%v", err)
	}
}

func TestKeys(t *testing.T) {
	text, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	k, err := ParseKey(text, "mailto:me@example.com")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	auth, err := k.Authorization("https://push.example", now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := webpushtest.Claims(auth, k.Public()); err != nil {
		t.Error(err)
	}
	other, err := ParseKey(must(t, NewKey), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := webpushtest.Claims(auth, other.Public()); err == nil {
		t.Error("the token of one key is another's")
	}
	half := string(text[:60]) + "\n-----END PRIVATE KEY-----\n"
	for _, bad := range []string{"", "x", strings.Replace(string(text), "PRIVATE", "PUBLIC", 2), half} {
		if _, err := ParseKey([]byte(bad), ""); err == nil || strings.Contains(err.Error(), string(text[30:60])) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func must(t *testing.T, f func() ([]byte, error)) []byte {
	t.Helper()
	b, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
