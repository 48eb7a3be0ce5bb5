//go:build !linux

package dotenv

import "context"

// supported says whether files can be masked on this system.
const supported = false

// SearchDir is where a Finder looks.
type SearchDir struct {
	Top   int
	Path  string
	Place string
}

// Find tells nothing: files are masked on Linux only.
func (f *Finder) Find(context.Context, SearchDir, Names) ([]string, error) {
	return nil, &BoundError{Why: "files are masked on Linux only"}
}

// Now tells nothing either.
func (m *Masks) Now(ctx context.Context, _ string) (MaskedNow, error) {
	_, err := m.Find(ctx, SearchDir{})
	return MaskedNow{}, err
}

// Links tells nothing either.
func (m *Masks) Links(ctx context.Context, _ string) ([]string, error) {
	return m.Find(ctx, SearchDir{})
}

func (m *Masks) look(ctx context.Context, dir SearchDir) ([]Found, error) {
	_, err := m.Find(ctx, dir)
	return nil, err
}

// Copy shows nothing.
func (Masker) Copy(int, string) (text []byte, same bool) { return Unread(), false }
