package screen

import (
	"testing"
	"time"
)

func TestParseSpan(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"30m": 30 * time.Minute, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour, "1ms": time.Millisecond,
		"0.5h": 30 * time.Minute,
		"1w":   7 * day, "1w2d3h": 9*day + 3*time.Hour, "1d1m": day + time.Minute,
	} {
		if got, err := parseSpan(in); err != nil || got != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", "0", "0s", "0d", "-5m", "+5m", "1d-5m", "5", "d", "m", "w", "0w", "1d1w", "1w1w", "-1w", "1.5w", "4096w",
		"4095w65535d2562047h", "1.5d", "99999d", "1d5", " 5m", "9999999h", "5m ",
	} {
		if got, err := parseSpan(in); err == nil {
			t.Errorf("%q was taken as %v", in, got)
		}
	}
}

func TestSpanFlag(t *testing.T) {
	var f SpanFlag
	if f.String() != "" || f.Type() != "duration" {
		t.Errorf("empty: %q %q", f.String(), f.Type())
	}
	if err := f.Set("1d"); err != nil || f.String() != "1d" {
		t.Errorf("%v %s", err, f.String())
	}
	if err := f.Set("soon"); err == nil {
		t.Error("soon was taken")
	}
}

func TestParseWhen(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"":                          {},
		"2h":                        now.Add(-2 * time.Hour),
		"1w":                        now.Add(-7 * day),
		"0s":                        now,
		"2026-01-02T03:04:05":       time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		"2026-01-02 03:04":          time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC),
		"2026-01-02":                time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
		"2026-01-02T03:04:05Z":      time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		"2026-01-02T03:04:05+02:00": time.Date(2026, 1, 2, 1, 4, 5, 0, time.UTC),
	} {
		if got, err := ParseWhen(in, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	if _, err := ParseWhen("yesterday", now); err == nil {
		t.Error("yesterday is a moment")
	}
}

func TestSpanAndLeft(t *testing.T) {
	for d, want := range map[time.Duration]string{
		250 * time.Millisecond: "250ms", 5 * time.Second: "5s", 90 * time.Second: "1m30s", 3*time.Hour + 61*time.Second: "3h1m",
		50 * time.Hour: "2d2h", 0: "0ms",
	} {
		if got := Span(d); got != want {
			t.Errorf("span(%v) = %s, want %s", d, got, want)
		}
	}
	now := time.Unix(1000, 0)
	if got := Left(now.Add(-time.Second), now); got != "now" {
		t.Errorf("past: %s", got)
	}
}

func FuzzParseSpan(f *testing.F) {
	f.Add("1d12h")
	f.Add("-1d")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := parseSpan(s); err == nil && d <= 0 {
			t.Fatalf("%q became %v", s, d)
		}
	})
}

// What a flag shows as its default is what a person would type.
func TestSpanFlagText(t *testing.T) {
	for text, d := range map[string]time.Duration{"30d": 30 * 24 * time.Hour, "": 0, "36h0m0s": 36 * time.Hour, "1d": 24 * time.Hour} {
		f := SpanFlag(d)
		if f.String() != text {
			t.Errorf("%v: %q, want %q", d, f.String(), text)
		}
	}
}
