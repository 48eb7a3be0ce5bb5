package hook

import (
	"context"
	"path/filepath"
	"time"

	"palyra/internal/cli/invocation"
	"palyra/internal/dotenv"
	"palyra/internal/subpath"
)

// maskedFiles are the files whose secret values nobody is to see, as the daemon's configuration has them: what such a file has is not
// sent to be judged and kept. Without a configuration they are told by their names only.
type maskedFiles struct {
	ctx     context.Context
	names   dotenv.Names
	masks   *dotenv.Masks
	unknown bool // the configuration cannot be read
}

// lookFor is how long it may take to find out which these are.
const lookFor = 5 * time.Second

// maskedBy are those of the configuration.
func maskedBy(ctx context.Context, inv *invocation.Invocation) maskedFiles {
	c, err := inv.Config()
	if err != nil {
		return maskedFiles{unknown: true}
	}
	m, err := dotenv.NewMasks(c.Dotenv.Names, c.Dotenv.Unmasked, c.Dotenv.Mask == "off")
	if err != nil {
		return maskedFiles{unknown: true}
	}
	return maskedFiles{ctx: ctx, names: m.Names, masks: m}
}

// hide reports whether a text of a file in a workspace is not sent: there are secret values in it, and it is masked by whatever name,
// or nobody can tell.
func (m maskedFiles) hide(root, file, text string) bool {
	if string(dotenv.Masker{}.Mask("", []byte(text))) == text {
		return false
	}
	real := file
	if at, err := filepath.EvalSymlinks(file); err == nil {
		real = at
	}
	if m.unknown || m.names.Count(filepath.Base(file)) || m.names.Count(filepath.Base(real)) {
		return true
	}
	if !m.masks.On(root) {
		return false
	}
	ctx, done := context.WithTimeout(m.ctx, lookFor)
	defer done()
	now, err := m.masks.Now(ctx, root)
	if err != nil {
		return true
	}
	if at, err := filepath.EvalSymlinks(root); err == nil {
		root = at
	}
	rel, in := subpath.Rel(root, real)
	return in && now.Has(rel, []byte(text))
}
