package cli

import (
	"time"

	"palyra/internal/cli/screen"
)

// when reads a moment that a flag names.
func when(s string, now time.Time) (time.Time, error) {
	t, err := screen.ParseWhen(s, now)
	if err != nil {
		return time.Time{}, usage("%v", err)
	}
	return t, nil
}
