package dotenv

import (
	"context"
	"io"
	"os"
)

// Bounds of a look for placeholders.
const (
	mostLooked = 5_000
	bytesEach  = 4 << 20
	bytesAll   = 64 << 20
)

// Carriers returns which of the files have placeholders in them. more is how many were not looked through, because they are too
// many or too large.
func Carriers(ctx context.Context, open func(path string) (*os.File, error), paths []string) (found []string, more int) {
	left := int64(bytesAll)
	for i, path := range paths {
		if i == mostLooked || left <= 0 || ctx.Err() != nil {
			return found, more + len(paths) - i
		}
		f, err := open(path)
		if err != nil {
			more++
			continue
		}
		text, err := io.ReadAll(io.LimitReader(f, min(bytesEach, left)+1))
		_ = f.Close()
		if left -= int64(len(text)); err != nil || len(text) > bytesEach {
			more++
		}
		if Carries(text) {
			found = append(found, path)
		}
	}
	return found, more
}
