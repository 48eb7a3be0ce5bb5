package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func knowing(values map[string]string) *Masker {
	m := new(Masker)
	m.Set(all(values))
	return m
}

func all(values map[string]string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if !yield(name, []byte(values[name])) {
				return
			}
		}
	}
}

// ways are the forms that tools write a value in, made by the libraries and not by this package.
var ways = map[string]func(string) string{
	"raw":        func(s string) string { return s },
	"base64":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 1":   func(s string) string { return base64.StdEncoding.EncodeToString([]byte("u" + s + "tail")) },
	"base64 2":   func(s string) string { return base64.StdEncoding.EncodeToString([]byte("us" + s + ":x")) },
	"base64url":  func(s string) string { return base64.URLEncoding.EncodeToString([]byte("user:" + s)) },
	"base64 76":  func(s string) string { return lines(base64.StdEncoding.EncodeToString([]byte(s)), 76) },
	"base64 64":  func(s string) string { return lines(base64.StdEncoding.EncodeToString([]byte(s)), 64) },
	"hex":        func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":        func(s string) string { return fmt.Sprintf("%X", s) },
	"hex 60":     func(s string) string { return lines(hex.EncodeToString([]byte(s)), 60) },
	"query":      url.QueryEscape,
	"path":       url.PathEscape,
	"%XX":        func(s string) string { return everyByte(s, "%%%02X") },
	"%xx":        func(s string) string { return everyByte(s, "%%%02x") },
	"JSON":       func(s string) string { b, _ := json.Marshal(s); return string(b) },
	"Go's quote": func(s string) string { return fmt.Sprintf("%q", s) },
}

func lines(s string, n int) string {
	var out []string
	for part := range slices.Chunk([]byte(s), n) {
		out = append(out, string(part))
	}
	return strings.Join(out, "\n")
}

func everyByte(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

func TestForms(t *testing.T) {
	values := map[string]string{
		"token": "ghp_5uperSecret+Val/ue=&?<x>", "pass": "correct horse battery staple \"quoted\" \\ ünïcode", "short": "exactly12byt",
		"long": strings.Repeat("a line of a key, as long as they are\n", 40) + "its end",
	}
	m := knowing(values)
	for name, value := range values {
		for way, write := range ways {
			text := "before " + write(value) + " after"
			got := m.String(text)
			if !strings.Contains(got, "[secret "+name+"]") || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Errorf("%s as %s: %s", name, way, got)
			}
			if m.Has(got) {
				t.Errorf("%s as %s: it is still there: %s", name, way, got)
			}
		}
	}
}

func TestZeroAndShort(t *testing.T) {
	for what, m := range map[string]*Masker{"nil": nil, "zero": {}, "short": knowing(map[string]string{"pin": "elevenbytes"})} {
		text := []byte("the elevenbytes of it")
		if got := m.Bytes(text); &got[0] != &text[0] {
			t.Errorf("%s: another slice: %s", what, got)
		}
		if got := m.JSON([]byte(`{"a":"elevenbytes"}`)); string(got) != `{"a":"elevenbytes"}` {
			t.Errorf("%s: %s", what, got)
		}
		var out bytes.Buffer
		s := m.Stream(&out)
		_, _ = s.Write(text)
		if out.String() != string(text) || s.Flush() != nil {
			t.Errorf("%s: the stream has %q", what, out.String())
		}
	}
}

// A log's lines are masked one by one, as they are written.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	m := new(Masker)
	log := slog.New(slog.NewTextHandler(m.Lines(&out), nil))
	m.Set(all(map[string]string{"token": "a \"quoted\" value"}))
	log.Info("it is a \"quoted\" value", "too", "a \"quoted\" value", "err", errors.New("no a \"quoted\" value"))
	if got := out.String(); strings.Contains(got, "quoted") || strings.Count(got, "[secret token]") != 3 {
		t.Error(got)
	}
}

// What is known changes with the next value, and what was learned before stays until all is set anew.
func TestSetAndAdd(t *testing.T) {
	m := knowing(map[string]string{"a": "the first value"})
	m.Add(all(map[string]string{"b": "the second value", "c": "the first value"}))
	if got := m.String("the first value, the second value"); got != "[secret a], [secret b]" {
		t.Error(got)
	}
	m.Set(all(map[string]string{"b": "the second value"}))
	if got := m.String("the first value, the second value"); got != "the first value, [secret b]" {
		t.Error(got)
	}
	m.Set(all(nil))
	if m.Has("the second value") {
		t.Error("it is known after all was forgotten")
	}
}

// The name that stands for a value tells none.
func TestNamesThatAreValues(t *testing.T) {
	m := knowing(map[string]string{"hunter2hunter2": "hunter2hunter2", "other": "something else"})
	if got := m.String("it is hunter2hunter2, or something else"); got != "it is [secret], or [secret other]" {
		t.Error(got)
	}
}

func TestJSON(t *testing.T) {
	m := knowing(map[string]string{
		"n": "123456789012345", "s": `with "quotes" in it`, "odd": `"quoted whole"`, "gcp": `{"type":"service_account","k":1}`, "u": "plain-ascii-text",
	})
	for in, want := range map[string]string{
		`{"a":123456789012345}`:                           `{"a":"[secret n]"}`,
		`{"a":[-9123456789012345.5,1]}`:                   `{"a":["-9[secret n].5",1]}`,
		`{"a":"x with \"quotes\" in it y"}`:               `{"a":"x [secret s] y"}`,
		`{"a":"\u0070lain-ascii-text"}`:                   `{"a":"[secret u]"}`,
		`{"a":{"type":"service_account","k":1}}`:          `"[secret]"`,
		`{"a":"{\"type\":\"service_account\",\"k\":1}"}`:  `{"a":"[secret gcp]"}`,
		`{"plain-ascii-text":true}`:                       `{"[secret u]":true}`,
		`{"a":"\u00fc","b":[1e9,null,true,"\/"]}`:         `{"a":"\u00fc","b":[1e9,null,true,"\/"]}`,
		`{"b":"cGxhaW4tYXNjaWktdGV4dA==","c":"\\","d":1}`: `{"b":"[secret u]A==","c":"\\","d":1}`,
	} {
		got := string(m.JSON([]byte(in)))
		if !json.Valid([]byte(got)) || m.Has(got) || got != want && in != `{"b":"cGxhaW4tYXNjaWktdGV4dA==","c":"\\","d":1}` {
			t.Errorf("%s: %s", in, got)
		}
	}
	if got := string(m.JSON([]byte(`{"a":"quoted whole"}`))); !json.Valid([]byte(got)) || strings.Contains(got, "quoted whole") {
		t.Error(got)
	}
	if got := string(m.JSON([]byte(`no JSON plain-ascii-text`))); got != "no JSON [secret u]" {
		t.Error(got)
	}
}

// drawValue draws what a secret may be: bytes of any kind.
func drawValue(t *rapid.T) string {
	if rapid.Bool().Draw(t, "printable") {
		return rapid.StringOfN(rapid.RuneFrom(nil, asciiPrintable), Least, 200, -1).Draw(t, "value")
	}
	return string(rapid.SliceOfN(rapid.Byte(), Least, 200).Draw(t, "value"))
}

// However a value is written, wherever it stands and however the writes are cut, it is never in what comes out, and
// what stands around it is.
func TestNoFormComesThrough(t *testing.T) {
	names := slices.Sorted(maps.Keys(ways))
	rapid.Check(t, func(t *rapid.T) {
		values := map[string]string{}
		for i := range rapid.IntRange(1, 4).Draw(t, "secrets") {
			values[fmt.Sprintf("s%d", i)] = drawValue(t)
		}
		m := knowing(values)
		var text string
		for range rapid.IntRange(1, 4).Draw(t, "pieces") {
			value := values[fmt.Sprintf("s%d", rapid.IntRange(0, len(values)-1).Draw(t, "which"))]
			text += rapid.String().Draw(t, "around") + ways[rapid.SampledFrom(names).Draw(t, "way")](value)
		}
		text += rapid.String().Draw(t, "end")
		var out bytes.Buffer
		s := m.Stream(&out)
		for rest := []byte(text); len(rest) > 0; {
			n := min(len(rest), rapid.SampledFrom([]int{1, 2, 3, 7, 11, 12, 13, 64, 1000}).Draw(t, "write"))
			if _, err := s.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, got := range []string{out.String(), m.String(text)} {
			for name, value := range values {
				if strings.TrimSpace(value) != value {
					continue // its forms are those of what is left
				}
				for way, write := range ways {
					core := write(value)
					if len(core) > Least && !strings.HasPrefix(way, "base64") && strings.Contains(got, core) {
						t.Fatalf("%s is there as %s: %q", name, way, got)
					}
				}
			}
			if m.Has(got) {
				t.Fatalf("a form is still there: %q", got)
			}
		}
		if out.String() != m.String(text) {
			t.Fatalf("in pieces it is %q, and at once %q", out.String(), m.String(text))
		}
	})
}

// A text without a value comes through as it is, and nothing of it is held back in the end.
func TestOtherTextIsUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := map[string]string{"a": "A" + drawValue(t), "b": "-----BEGIN OPENSSH PRIVATE KEY-----\nbase64 of the key"}
		m := knowing(values)
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		if rapid.Bool().Draw(t, "alike") {
			text = append(text, "-----BEGIN OPENSSH PRIVATE KEY-----\nbase64 of another"...)
		}
		if m.Has(string(text)) { // it was drawn by chance
			return
		}
		got := m.Bytes(text)
		if len(text) > 0 && &got[0] != &text[0] {
			t.Fatal("another slice")
		}
		var out bytes.Buffer
		s := m.Stream(&out)
		for part := range slices.Chunk(text, rapid.IntRange(1, 40).Draw(t, "write")) {
			_, _ = s.Write(part)
		}
		if _ = s.Flush(); out.String() != string(text) {
			t.Fatalf("%q became %q", text, out.String())
		}
	})
}

// A stream holds back only what may be a value, so that prompts are seen.
func TestStreamsHoldBackLittle(t *testing.T) {
	m := knowing(map[string]string{"key": strings.Repeat("0123456789abcdef", 4096), "pw": "Password-1234"})
	var out bytes.Buffer
	s := m.Stream(&out)
	_, _ = s.Write([]byte("Enter it now: "))
	if out.String() != "Enter it now: " {
		t.Errorf("a prompt is shown as %q", out.String())
	}
	for range 70_000 {
		_, _ = s.Write([]byte("x"))
	}
	if n := out.Len(); n < 70_000 {
		t.Errorf("%d bytes are shown", n)
	}
}

var asciiPrintable = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x21, Hi: 0x7e, Stride: 1}}}

func many(n int) *Masker {
	m := new(Masker)
	r := rand.New(rand.NewPCG(1, 2))
	m.Set(func(yield func(string, []byte) bool) {
		for i := range n {
			value := make([]byte, 40)
			for j := range value {
				value[j] = byte('!' + r.IntN(94))
			}
			if !yield(fmt.Sprintf("secret-%d", i), value) {
				return
			}
		}
	})
	return m
}

// A full vault's forms take less than 16 MiB.
func TestMemoryOfAFullVault(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m := many(10_000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d forms, %d KiB", len(m.current().forms), used>>10)
	if used > 16<<20 {
		t.Errorf("%d bytes", used)
	}
	runtime.KeepAlive(m)
}

func BenchmarkScan(b *testing.B) {
	text := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range text {
		text[i] = byte(' ' + r.IntN(95))
	}
	for _, n := range []int{0, 1, 50, 10_000} {
		m := many(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				m.Bytes(text)
			}
		})
	}
}

func BenchmarkSet(b *testing.B) {
	for b.Loop() {
		many(10_000)
	}
}
