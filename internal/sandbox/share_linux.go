package sandbox

import (
	"context"

	"palyra/internal/prune"
	"palyra/internal/sandbox/cachedir"
)

// shareCaches copies what is in the caches of a run that somebody was asked about to those of runs that nobody is asked
// about: these find what was downloaded. So it is with the caches of runs that an answer for a group of hosts covers.
// Nothing goes the other way, nor between the caches of these two.
// Of a run with secrets nothing is copied: its programs may have cached what they got for one.
func (l *runStart) shareCaches(ctx context.Context) {
	if len(l.plan.Bindings)+len(l.plan.Signers) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cachedir.ShareWithin)
	defer cancel()
	s := cachedir.Share(ctx)
	for _, dir := range l.caches.dirs {
		to, asked := prune.UnaskedCache(dir)
		if !asked {
			continue
		}
		err := makeCaches(l.Caches, []string{to}, l.who)
		if err == nil {
			err = runAs(l.who, func() error { return s.Tree(dir, to) })
		}
		if err != nil {
			l.Log.Warn("not all of a run's cache is there for runs that nobody is asked about", "call", string(l.call), "cache", dir, "err", err)
		}
	}
}
