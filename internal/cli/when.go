package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// parseSpan reads a duration as people write it: 30m, 1h30m, 2d, 1d12h. It must
// be more than nothing.
func parseSpan(s string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration like 30m, 2h or 1d", s)
	rest, total := s, time.Duration(0)
	if days, after, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, bad
		}
		total, rest = time.Duration(n)*24*time.Hour, after
	}
	if rest != "" || total == 0 {
		d, err := time.ParseDuration(rest)
		if err != nil || strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "+") {
			return 0, bad
		}
		total += d
	}
	if total <= 0 {
		return 0, bad
	}
	return total, nil
}

// spanFlag is a duration on the command line.
type spanFlag time.Duration

// String implements pflag.Value.
func (f *spanFlag) String() string {
	if *f == 0 {
		return ""
	}
	const day = 24 * time.Hour
	if d := time.Duration(*f); d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return time.Duration(*f).String()
}

// Set implements pflag.Value.
func (f *spanFlag) Set(s string) error {
	d, err := parseSpan(s)
	*f = spanFlag(d)
	return err
}

// Type implements pflag.Value.
func (*spanFlag) Type() string { return "duration" }

// parseWhen reads a moment: RFC 3339, a date, or a duration ago.
func parseWhen(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	d, err := parseSpan(s)
	if err != nil {
		return time.Time{}, usage("%q is neither a time like 2026-01-02T15:04:05Z nor a duration like 2h", s)
	}
	return now.Add(-d).UTC(), nil
}
