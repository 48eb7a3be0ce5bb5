package policy

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"palyra"
)

func TestQuery(t *testing.T) {
	at := func(s int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: s} }
	for name, c := range map[string]struct {
		since, until *timestamppb.Timestamp
		ok           bool
	}{
		"nothing":   {nil, nil, true},
		"since":     {at(5), nil, true},
		"until":     {nil, at(5), true},
		"both":      {at(4), at(5), true},
		"the same":  {at(5), at(5), false},
		"backwards": {at(6), at(5), false},
		"too far":   {at(1 << 60), nil, false},
		"too early": {nil, at(-1 << 60), false},
		"nanos":     {&timestamppb.Timestamp{Nanos: -1}, nil, false},
	} {
		q, err := query(c.since, c.until)
		if (err == nil) != c.ok || err != nil && palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", name, err)
		}
		if c.ok && (c.since == nil) != q.Since.IsZero() || c.ok && c.until != nil && !q.Until.Equal(time.Unix(c.until.GetSeconds(), 0)) {
			t.Errorf("%s: %+v", name, q)
		}
	}
}
