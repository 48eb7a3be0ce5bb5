package sandbox

import (
	"context"
	"errors"
	"slices"

	"palyra"
	"palyra/internal/dotenv"
	"palyra/internal/stage"
)

// Masked is another mechanism of Runner's: the run finds the files of its workspace that are like .env as copies whose
// secret values are placeholders, as far as they were there when it began. In a tier without rooms nothing runs where
// there are any.
const Masked = dotenv.Mechanism

// masked reports whether the plan says that files are masked.
func (l *runStart) masked() bool { return slices.Contains(l.plan.Enforcement.Mechanisms, Masked) }

// maskedPaths are those of the files that the run finds as copies.
func (l *runStart) maskedPaths() (out []string) {
	for _, f := range l.masks {
		out = append(out, f.Path)
	}
	return out
}

// unmaskable refuses a run in whose workspace nobody can tell which files to mask.
func unmaskable(err error) error {
	if errors.Is(err, dotenv.ErrMoved) {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonSpawnFailed, "files like .env came, went or were replaced while the run was begun").
			WithRemedy("propose the call again").WithCause(err)
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement, "%s", dotenv.Why(err)).
		WithRemedy("work in a smaller directory, or mend it; " + dotenv.ShowValues).WithCause(err)
}

// carriers are the files that a staged run wrote with placeholders in them: what they stand for is not there.
func (l *runStart) carriers(ctx context.Context, f stage.Found) {
	if len(l.masks) == 0 || f.After == nil {
		return
	}
	var written []string
	for _, c := range f.Changes {
		if c.Now.Kind == stage.File {
			written = append(written, c.Path)
		}
	}
	found, more := dotenv.Carriers(ctx, f.After.Open, written)
	if len(found) > 0 {
		l.carried = append(l.carried, palyra.Remnant{Kind: palyra.RemnantPlaceholder, Path: found[0], More: int64(len(found)-1) + int64(more)})
	}
}
