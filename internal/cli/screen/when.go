package screen

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// day is 24 hours.
const day = 24 * time.Hour

// parseSpan reads a duration as people write it: 30m, 1h30m, 2d, 1d12h, 1w. It must be above 0.
func parseSpan(s string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration like 30m, 2h, 1d or 1w", s)
	rest, total := s, time.Duration(0)
	for _, unit := range []struct {
		name string
		is   time.Duration
		bits int // of the number, so that a sum too large turns negative
	}{{"w", 7 * day, 12}, {"d", day, 16}} {
		number, after, ok := strings.Cut(rest, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(number, 10, unit.bits)
		if err != nil {
			return 0, bad
		}
		total, rest = total+time.Duration(n)*unit.is, after
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

// SpanFlag is a duration on the command line.
type SpanFlag time.Duration

// String implements pflag.Value.
func (f *SpanFlag) String() string {
	if *f == 0 {
		return ""
	}
	if d := time.Duration(*f); d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return time.Duration(*f).String()
}

// Set implements pflag.Value.
func (f *SpanFlag) Set(s string) error {
	d, err := parseSpan(s)
	*f = SpanFlag(d)
	return err
}

// Type implements pflag.Value.
func (*SpanFlag) Type() string { return "duration" }

// moments are the forms of a time. One without a zone is in UTC, like all printed times.
var moments = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04",
	time.DateOnly,
}

// ParseWhen reads a time: a time, a date, or a duration ago. A duration of 0 is now.
func ParseWhen(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range moments {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	if s == "0" || s == "0s" {
		return now.UTC(), nil
	}
	d, err := parseSpan(s)
	if err != nil {
		return time.Time{}, fmt.Errorf(
			"%q is neither a time like 2026-01-02T15:04:05Z, nor a date like 2026-01-02, nor a duration ago like 2h, 7d or 1w", s)
	}
	return now.Add(-d).UTC(), nil
}
