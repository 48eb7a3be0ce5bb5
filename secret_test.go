package palyra_test

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"

	"palyra"
	"palyra/internal/canon"
)

const hidden = "correct-horse-battery"

// shows reports whether out gives the secret away in any common clothing.
func shows(out string) bool {
	b := []byte(hidden)
	for _, form := range []string{
		hidden, hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)), base64.StdEncoding.EncodeToString(b),
		base64.RawURLEncoding.EncodeToString(b), strings.Trim(fmt.Sprint(b), "[]"), fmt.Sprintf("% x", b), fmt.Sprintf("%#v", b)[8:],
	} {
		if strings.Contains(out, form) {
			return true
		}
	}
	return false
}

type holder struct {
	Name  string
	Token palyra.Secret
	token palyra.Secret
	More  []palyra.Secret
	ByKey map[string]palyra.Secret
	Far   *palyra.Secret
}

func holding() holder {
	s := palyra.NewSecret([]byte(hidden))
	return holder{Name: "n", Token: s, token: s, More: []palyra.Secret{s}, ByKey: map[string]palyra.Secret{"k": s}, Far: &s}
}

func TestShowsCanFail(t *testing.T) {
	for _, leak := range []string{
		hidden, fmt.Sprintf("%x", hidden), fmt.Sprintf("%X", hidden), fmt.Sprint([]byte(hidden)),
		fmt.Sprintf("%#v", []byte(hidden)),
	} {
		if !shows(leak) {
			t.Errorf("%q would not be noticed", leak)
		}
	}
}

func TestSecretNeverPrints(t *testing.T) {
	h := holding()
	values := map[string]any{
		"secret": h.Token, "pointer": &h.Token, "struct": h, "pointer to struct": &h, "slice": h.More, "map": h.ByKey,
		"interface": []any{h.Token, &h}, "array": [1]palyra.Secret{h.Token}, "nested": struct{ H holder }{h},
	}
	for name, v := range values {
		var leaks []string
		for _, flags := range []string{"", "+", "#", " ", "0", "-", "+#", "20", ".3", "#+ 0"} {
			for verb := 'A'; verb <= 'z'; verb++ {
				format := "%" + flags + string(verb)
				if out := fmt.Sprintf(format, v); shows(out) {
					leaks = append(leaks, format+" "+out)
				}
			}
		}
		if len(leaks) > 0 {
			t.Errorf("%s leaks with %d formats, first %s", name, len(leaks), leaks[0])
		}
		if out := fmt.Sprint(v) + fmt.Sprintln(v); shows(out) {
			t.Errorf("%s prints %q", name, out)
		}
		if out := fmt.Errorf("x: %v", v).Error(); shows(out) {
			t.Errorf("%s in an error: %q", name, out)
		}
	}
}

func TestSecretNeverMarshals(t *testing.T) {
	h := holding()
	for name, encode := range map[string]func(any) ([]byte, error){
		"json":  json.Marshal,
		"xml":   xml.Marshal,
		"canon": canon.Marshal,
		"gob": func(v any) ([]byte, error) {
			var b bytes.Buffer
			err := gob.NewEncoder(&b).Encode(v)
			return b.Bytes(), err
		},
		"template": func(v any) ([]byte, error) {
			var b bytes.Buffer
			err := template.Must(template.New("").Parse("{{.}} {{printf `%#v` .}}")).Execute(&b, v)
			return b.Bytes(), err
		},
	} {
		for _, v := range []any{h.Token, &h.Token, h, h.More, map[palyra.Secret]int{h.Token: 1}} {
			if b, err := encode(v); shows(string(b)) || (err != nil && shows(err.Error())) {
				t.Errorf("%s of a %T: %q, %v", name, v, b, err)
			}
		}
	}
	b, err := json.Marshal(h.Token)
	if string(b) != `"[redacted]"` || err != nil {
		t.Errorf("json: %s, %v", b, err)
	}
}

func TestSecretNeverLogs(t *testing.T) {
	h := holding()
	var out bytes.Buffer
	for _, l := range []*slog.Logger{
		slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil)),
	} {
		l.Info("x", "token", h.Token, "holder", h, slog.Group("g", "t", &h.Token))
		l.With("token", h.Token).Error("y", "err", errors.New("plain"))
	}
	if shows(out.String()) || !strings.Contains(out.String(), "[redacted]") {
		t.Errorf("logged %s", out.String())
	}
}

func TestSecretUse(t *testing.T) {
	s := palyra.NewSecret([]byte(hidden))
	var got string
	if err := s.Use(func(b []byte) error { got = string(b); return nil }); err != nil || got != hidden {
		t.Errorf("got %q, %v", got, err)
	}
	want := errors.New("x")
	if err := s.Use(func([]byte) error { return want }); !errors.Is(err, want) {
		t.Errorf("the callee's error became %v", err)
	}
	if s.Empty() {
		t.Error("empty")
	}
}

func TestSecretDestroy(t *testing.T) {
	b := []byte(hidden)
	s := palyra.NewSecret(b)
	other := s // a copy shares the bytes, and so their end
	s.Destroy()
	s.Destroy()
	if !bytes.Equal(b, make([]byte, len(b))) {
		t.Errorf("the bytes are still %q", b)
	}
	if !s.Empty() || !other.Empty() {
		t.Error("not empty after Destroy")
	}
	if err := other.Use(func(b []byte) error { return fmt.Errorf("%d bytes", len(b)) }); err.Error() != "0 bytes" {
		t.Error(err)
	}
}

func TestTheZeroSecret(t *testing.T) {
	var s palyra.Secret
	if !s.Empty() || s.String() != "[redacted]" || s.GoString() != "[redacted]" {
		t.Errorf("%v", s)
	}
	s.Destroy()
	if err := s.Use(func(b []byte) error {
		if b != nil {
			return errors.New("bytes from nowhere")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
